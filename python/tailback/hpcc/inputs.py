"""Reads and checks the files of an HPCC run, and the copies in the folder of a result that repeat it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tailback.errors import InputError, plain
from tailback.files import read_file
from tailback.hpcc.config import Config, read_config
from tailback.hpcc.flows import read_flows, read_trace
from tailback.hpcc.forks import FORK_KEYS, NS3_RDMA, check_flow_form, refuse_foreign
from tailback.hpcc.keys import HPCC_VARIANT
from tailback.hpcc.tokens import named, read_bytes, unread_row
from tailback.hpcc.topology import Topology, read_topology
from tailback.limits import FLOWS_BYTES, HPCC_CONFIG_BYTES, HPCC_TOPOLOGY_BYTES
from tailback.rows import Rows
from tailback.text import plural

CONFIG_FILE = "config.txt"
COPY_NAMES = {"TOPOLOGY_FILE": "topology.txt", "FLOW_FILE": "flow.txt", "TRACE_FILE": "trace.txt"}
"""Keys that name an input file, and the name of its copy in the folder of the result."""
MAX_FILE_BYTES = {
    "TOPOLOGY_FILE": HPCC_TOPOLOGY_BYTES,
    "FLOW_FILE": FLOWS_BYTES,
    "TRACE_FILE": HPCC_CONFIG_BYTES,
}


@dataclass
class HpccInputs:
    """The inputs of a run. `files` holds the copies by name; its config.txt names the copies."""

    name: str
    config: Config
    topology: Topology
    flows: Rows
    files: dict[str, bytes]
    warnings: list[str]


def load_inputs(
    config: str | os.PathLike[str], *, beside: bool = False, ignore: Collection[str] = ()
) -> HpccInputs:
    """Reads config.txt and the files that it names. `ignore` lists keys of forks that are accepted.

    A relative name is looked up in the working directory, as in the HPCC simulator, then in the folder of
    config.txt; with `beside`, which reads the folder of a result, only there.

    Raises:
        InputError: a file is missing or not valid; the message has file and line.
        InputError: keys of a fork would change results; the message has a line for each.
    """
    inputs, texts = _load(config, tuple(COPY_NAMES), beside)
    if not beside:
        refuse_foreign(inputs.config.foreign, ignore)
        if "FLOW_FILE" not in ignore:
            check_flow_form(
                *texts["FLOW_FILE"],
                any(
                    FORK_KEYS[key.name].fork == NS3_RDMA and key.name not in ignore
                    for key in inputs.config.foreign
                ),
            )
    inputs.flows = read_flows(*texts["FLOW_FILE"], inputs.topology)
    count = len(inputs.flows)
    counted = f"the file says that it has {plural(count, 'flow')}"
    inputs.warnings += unread_row(*texts["FLOW_FILE"], 1 + 6 * count, 6, counted)
    if "TRACE_FILE" in texts:
        read_trace(*texts["TRACE_FILE"])
    return inputs


def load_network(
    config: str | os.PathLike[str],
    *,
    beside: bool = False,
    variant: bytes | None = None,
    ignore: Collection[str] = (),
) -> HpccInputs:
    """Reads config.txt and the topology only, for this variant.

    Raises:
        InputError: as `load_inputs`.
    """
    inputs = _load(config, ("TOPOLOGY_FILE",), beside, variant)[0]
    if not beside:
        refuse_foreign(inputs.config.foreign, ignore)
    return inputs


def _load(
    config: str | os.PathLike[str], keys: tuple[str, ...], beside: bool, variant: bytes | None = None
) -> tuple[HpccInputs, dict[str, tuple[str, bytes]]]:
    """Reads config.txt, the topology, and the file of each key (name and bytes)."""
    path = Path(config)
    file = named(path)
    data = read_bytes(path, HPCC_CONFIG_BYTES, file)
    read = read_config(file, data)
    if variant is not None:
        read.values["TAILBACK_VARIANT"] = variant
    texts, files, warnings = {}, {}, list(read.warnings)
    for key in keys:
        if not read[key]:
            continue  # TRACE_FILE may be missing
        found, more = _find(read, key, path.parent, beside)
        if key == "TRACE_FILE" and not found.exists():
            if not beside:
                what = f"token '{_word(read, key)}': there is no such file, and nothing here reads it"
                warnings.append(f"{read.places[key]}: warning: {what}")
            continue
        token = f"token '{_word(read, key)}': "
        texts[key] = (named(found), read_bytes(found, MAX_FILE_BYTES[key], read.places[key], token))
        files[COPY_NAMES[key]] = texts[key][1]
        warnings += more
    # Forks use later versions of ns-3, which round delays to the nearest nanosecond.
    topology = read_topology(*texts["TOPOLOGY_FILE"], nearest=read["TAILBACK_VARIANT"] != HPCC_VARIANT)
    links = len(topology.links)
    counted = f"the file says that it has {plural(links, 'link')}"
    warnings += unread_row(*texts["TOPOLOGY_FILE"], 3 + len(topology.switches) + 5 * links, 5, counted)
    files[CONFIG_FILE] = _renamed(data, read, keys)
    return HpccInputs(_name(path), read, topology, Rows(), files, warnings), texts


def _word(config: Config, key: str) -> str:
    return plain(os.fsdecode(config[key]).encode("utf-8", "backslashreplace").decode())


def _find(config: Config, key: str, folder: Path, beside: bool) -> tuple[Path, list[str]]:
    """The file that a key names, and a warning if two different files have this name."""
    name = Path(os.fsdecode(config[key]))
    here, there = Path.cwd() / name, folder / name
    if beside:
        return there, []
    try:
        in_both = here.is_file() and there.is_file() and not _equal(here, there, MAX_FILE_BYTES[key])
        found = name if here.exists() or not there.exists() else there
    except (OSError, ValueError):
        found, in_both = name, False
    if not in_both:
        return found, []
    text = (
        f"{named(name)} is in the working directory and, different, beside {CONFIG_FILE}: the first is taken"
    )
    return found, [f"{config.places[key]}: warning: {text}"]


def _equal(one: Path, other: Path, most: int) -> bool:
    return one.samefile(other) or read_file(one, most) == read_file(other, most)


def _renamed(data: bytes, config: Config, keys: tuple[str, ...]) -> bytes:
    """config.txt with the names of the copies; all other bytes are unchanged."""
    wanted = {config.spans[key]: COPY_NAMES[key].encode() for key in keys if key in config.spans}
    parts, end = [], 0
    for index, match in enumerate(re.finditer(rb"\S+", data)):
        if index in wanted:
            parts += [data[end : match.start()], wanted[index]]
            end = match.end()
    return b"".join([*parts, data[end:]])


def _name(path: Path) -> str:
    """Name of the run: that of the file, or of its folder if the file is config.txt."""
    folder = path.resolve().parent.name
    return folder if path.name == CONFIG_FILE and folder else path.stem


__all__ = ["CONFIG_FILE", "HpccInputs", "InputError", "load_inputs", "load_network"]
