"""Reads and checks the files of a SimAI run, and the copies in the folder of a result that repeat it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailback.errors import InputError
from tailback.files.json import read_json
from tailback.hpcc.config import read_config
from tailback.hpcc.forks import refuse_foreign
from tailback.hpcc.inputs import CONFIG_FILE, HpccInputs
from tailback.hpcc.keys import SIMAI
from tailback.hpcc.plan import LATEST_END_S, network_warnings
from tailback.hpcc.tokens import named, read_bytes
from tailback.limits import HPCC_CONFIG_BYTES, HPCC_TOPOLOGY_BYTES, SIMAI_WORKLOAD_BYTES
from tailback.rows import Rows
from tailback.simai.topology import Servers, read_servers
from tailback.simai.workload import (
    FORWARD,
    INPUT,
    PART_NAMES,
    PARTS,
    WEIGHT,
    Collective,
    Workload,
    read_workload,
)
from tailback.text import plural, verb

OPTIONS_FILE, TOPOLOGY_FILE, WORKLOAD_FILE = "simai.json", "topology.txt", "workload.txt"
DEFAULT_SEND_LAT_US = 6000
"""SimAI's value where AS_SEND_LAT is not set."""
OPTION_NAMES = {"threads": "-t", "send_lat": "AS_SEND_LAT", "pxn": "AS_PXN_ENABLE", "nvls": "AS_NVLS_ENABLE"}
"""Names of options on SimAI's command line and in its environment."""
MAX_SEND_LAT_US = 2_000_000


@dataclass(frozen=True)
class SimaiOptions:
    """Options of SimAI's command line and environment."""

    workload: str | os.PathLike[str]
    topology: str | os.PathLike[str]
    config: str | os.PathLike[str]
    threads: int = 1
    send_lat: int = DEFAULT_SEND_LAT_US
    """AS_SEND_LAT: microseconds between the send of a message and the start of its queue pair."""
    pxn: bool = False
    """AS_PXN_ENABLE."""
    nvls: bool = False
    """AS_NVLS_ENABLE, which is not honoured."""
    native: bool = False
    """Use Tailback's own models of NICs and switches instead of SimAI's."""
    given_as: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """How the user gave an option, by its name here: as an option, a variable or in a file."""

    def name(self, key: str) -> str:
        """The name of an option in messages."""
        return self.given_as.get(key, OPTION_NAMES.get(key, f"--{key}"))


@dataclass(frozen=True)
class SimaiInputs:
    network: HpccInputs
    servers: Servers
    workload: Workload
    options: SimaiOptions
    files: dict[str, bytes]

    @property
    def expert(self) -> int:
        """Number of tensor-parallel groups in an expert-parallel group."""
        return self.workload.expert or 1

    def ranks(self, group: str) -> int:
        tensor = self.workload.tensor
        data = self.servers.gpus // tensor
        sizes = {"tensor": tensor, "data": data, "expert": self.expert, "data-expert": data // self.expert}
        return sizes[group]

    def is_sent(self, part: int) -> bool:
        """True if a part has more than one rank to communicate with, by SimAI's division of nodes."""
        nodes = self.servers.gpus + len(self.servers.topology.inner)
        tensor = self.workload.tensor
        return (nodes // tensor if part == WEIGHT else tensor) > 1

    def steps(self, collective: Collective) -> int:
        """Number of sequential messages of a collective."""
        ranks = self.ranks(collective.group)
        return {"all-reduce": 2 * (ranks - 1), "all-to-all": 1}.get(collective.kind, ranks - 1)

    def plan(self) -> dict[str, Any]:
        workload, servers, options = self.workload, self.servers, self.options
        return {
            "file": named(options.workload),
            "gpus": servers.gpus,
            "gpus_per_server": servers.gpus_per_server,
            "nodes": servers.gpus + len(servers.topology.inner),
            "tensor": workload.tensor,
            "expert": self.expert,
            "layers": [
                {
                    "name": layer.name,
                    "parts": [
                        {
                            "compute_ns": layer.compute_ns[part],
                            "collective": vars(one) if (one := layer.collectives[part]) else None,
                        }
                        for part in PARTS
                    ],
                    "update_ns": layer.update_ns,
                    "is_checkpoint": number in workload.checkpoints,
                    "initiates": number in workload.initiates,
                }
                for number, layer in enumerate(workload.layers)
            ],
            "send_latency_ns": options.send_lat * 1000,
            "pxn": options.pxn,
            "inside": _inside(servers) if options.native else None,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Options other than files, by their names in the environment or on the command line."""
        given = _settings(self.options)
        return {OPTION_NAMES.get(key, f"--{key}"): value for key, value in given.items()}

    @property
    def command(self) -> str:
        """The command that repeats the run in its folder."""
        options = self.options
        flags = ((options.pxn, "AS_PXN_ENABLE=1 "), (options.nvls, "AS_NVLS_ENABLE=1 "))
        given = "".join(flag for is_set, flag in flags if is_set)
        return (
            f"AS_SEND_LAT={options.send_lat} {given}tailback simai -w {WORKLOAD_FILE} -n {TOPOLOGY_FILE} -c {CONFIG_FILE}"
            f"{' --native' if options.native else ''}"
        )

    @property
    def waited_us(self) -> int:
        """Total AS_SEND_LAT of the sequential messages that ranks wait for, in us."""
        return self._sequential_messages * self.options.send_lat

    @property
    def _sequential_messages(self) -> int:
        """Number of sequential messages that ranks wait for, in the forward pass and for input gradients."""
        return sum(
            self.steps(one)
            for layer in self.workload.layers
            for part in (FORWARD, INPUT)
            if (one := layer.collectives[part]) and self.is_sent(part)
        )

    @property
    def not_honoured(self) -> dict[str, str]:
        found = {}
        if self.options.nvls:
            found["--nvls (AS_NVLS_ENABLE)"] = "NVLS: all-reduces within a server go round rings, too"
        if self.workload.pipeline > 1:
            found["pp:"] = (
                f"pipeline parallelism ({self.workload.pipeline} stages): nothing is sent between stages, as "
                "in SimAI; its GPUs count for data parallelism"
            )
        if self.options.threads != 1:
            found["-t"] = "there is one thread"
        return found

    @property
    def warnings(self) -> list[str]:
        """Warnings about inputs that can run, a line each."""
        return [*network_warnings(self.network), *self._of_workload(), *self._of_latency()]

    def _of_workload(self) -> Iterator[str]:
        workload, file = self.workload, named(self.options.workload)
        if not workload.expert:
            yield f"{file}:1: warning: ep: is not given: taken as 1"
        if workload.all_gpus and workload.all_gpus != self.servers.gpus:
            there = f"the topology has {self.servers.gpus}, and these count"
            yield f"{file}:1: warning: all_gpus: is {workload.all_gpus}: {there}"
        if workload.broadcasts:
            yield f"{file}: warning: {workload.broadcasts} BROADCAST: nothing is sent for {verb(workload.broadcasts, 'it', 'them')}, as in SimAI"
        unsent = [
            layer
            for layer in workload.layers
            if any(layer.collectives[part] and not self.is_sent(part) for part in PARTS)
        ]
        if unsent:
            yield (
                f"{file}:{unsent[0].line}: warning: {plural(len(unsent), 'layer')} {verb(len(unsent), 'has', 'have')} "
                "collectives in a dimension of one rank: nothing is sent for these, as in SimAI"
            )
        short = [
            layer
            for layer in workload.layers
            for part, one in enumerate(layer.collectives)
            if one and self.is_sent(part) and one.bytes < self._min_bytes(one)
        ]
        if short:
            yield (
                f"{file}:{short[0].line}: warning: {plural(len(short), 'collective')} {verb(len(short), 'has', 'have')} less "
                f"than a byte for each message: {verb(len(short), 'it ends', 'they end')} at once here, and never in "
                "SimAI"
            )

    def _min_bytes(self, collective: Collective) -> int:
        """Minimum size for at least one byte in each message."""
        ranks = self.ranks(collective.group)
        if collective.kind == "all-to-all":
            return ranks
        stride = {"tensor": 1, "data": self.workload.tensor, "expert": self.workload.tensor}.get(
            collective.group, self.workload.tensor * self.expert
        )
        return ranks * max(1, min(ranks, self.servers.gpus_per_server // stride))

    def _of_latency(self) -> Iterator[str]:
        latency = self.options.send_lat
        if latency < 1000:  # less than 1 us if it is meant in ns: probably it is not
            return
        waited = self._sequential_messages
        text = (
            f"{self.options.name('send_lat')}: warning: each message begins {latency} x 1000 ns = {_time(latency)} after it is "
            f"sent, as in SimAI: {latency} is meant in ns, and multiplied by 1000 as if for ps, but time "
            "is in ns"
        )
        if waited:
            text += (
                f"; the {plural(waited, 'sequential message')} that ranks wait for, forward and for input "
                f"gradients, {verb(waited, 'waits', 'wait')} {waited:,} x {_time(latency)} = {_time(waited * latency)}, where "
                f"{_time(waited * latency / 1000)} is meant"
            )
        yield f"{text}; {self.options.name('send_lat')}={latency // 1000} makes it {_time(latency // 1000)}"


def _settings(options: SimaiOptions) -> dict[str, Any]:
    return {key: getattr(options, key) for key in ("threads", "send_lat", "pxn", "nvls", "native")}


def _time(us: float) -> str:
    """Formats microseconds."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if us >= factor:
            return f"{us / factor:.6g} {unit}"
    return f"{us:.6g} us"


def load_inputs(options: SimaiOptions, *, beside: bool = False, ignore: Collection[str] = ()) -> SimaiInputs:
    """Reads the files of a run.

    Raises:
        InputError: a file is missing or not valid; the message has its place.
    """
    places = {
        WORKLOAD_FILE: (options.workload, SIMAI_WORKLOAD_BYTES),
        TOPOLOGY_FILE: (options.topology, HPCC_TOPOLOGY_BYTES),
        CONFIG_FILE: (options.config, HPCC_CONFIG_BYTES),
    }
    files = {name: read_bytes(Path(path), most, named(path)) for name, (path, most) in places.items()}
    workload = read_workload(named(options.workload), files[WORKLOAD_FILE])
    servers = read_servers(named(options.topology), files[TOPOLOGY_FILE])
    config = read_config(named(options.config), files[CONFIG_FILE])
    if not beside:
        refuse_foreign(config.foreign, ignore)
    # SimAI ends a run with the work, not at a time, and sets GLOBAL_T to 1 whatever the file says.
    config.values.update(TAILBACK_VARIANT=SIMAI, SIMULATOR_STOP_TIME=LATEST_END_S, GLOBAL_T=1)
    _check(options, workload, servers)
    files[OPTIONS_FILE] = (json.dumps(_settings(options)) + "\n").encode()
    network = HpccInputs(
        Path(options.workload).stem, config, servers.topology, Rows(), files, config.warnings
    )
    inputs = SimaiInputs(network, servers, workload, options, files)
    _check_groups(inputs)
    return inputs


def _check(options: SimaiOptions, workload: Workload, servers: Servers) -> None:
    if not 0 <= options.send_lat <= MAX_SEND_LAT_US:
        raise InputError.at(
            options.name("send_lat"), f"expected 0 to {MAX_SEND_LAT_US}, found {options.send_lat}"
        )
    place = f"{named(options.workload)}:1"
    other = _other_count(options, workload, servers)
    if servers.gpus % workload.tensor:
        if other is not None:
            raise other
        text = f"expected a divisor of the topology's {servers.gpus} GPUs, found {workload.tensor}"
        raise InputError.at(place, f"model_parallel_NPU_group: {text}")
    data, expert = servers.gpus // workload.tensor, workload.expert or 1
    if data % expert:
        if other is not None:
            raise other
        text = f"expected a divisor of {data}, the {servers.gpus} GPUs over model_parallel_NPU_group"
        raise InputError.at(place, f"ep: {text}, found {expert}")
    for gpu in range(1, servers.gpus):
        if not servers.topology.connected(0, gpu):
            text = f"expected a route from GPU 0 to GPU {gpu}, there is none"
            raise InputError.at(named(options.topology), text)


def _other_count(options: SimaiOptions, workload: Workload, servers: Servers) -> InputError | None:
    """An error if the workload is for another number of GPUs than the topology has."""
    if workload.all_gpus in (0, servers.gpus):
        return None
    return InputError.at(
        f"{named(options.workload)}:1",
        f"all_gpus: found {workload.all_gpus:,}, but {named(options.topology)} has {servers.gpus:,} GPUs; "
        "expected a topology of as many, for its groups do not fit this one",
    )


def _check_groups(inputs: SimaiInputs) -> None:
    """Refuses collectives of a single rank for which SimAI would send messages."""
    for number, layer in enumerate(inputs.workload.layers):
        for part, one in enumerate(layer.collectives):
            if one and inputs.is_sent(part) and inputs.ranks(one.group) < 2:
                if (other := _other_count(inputs.options, inputs.workload, inputs.servers)) is not None:
                    raise other
                raise InputError.at(
                    f"{named(inputs.options.workload)}:{layer.line}",
                    f"layer {number} ({layer.name}), {PART_NAMES[part]} comm: expected a group of two or "
                    f"more ranks, found {one.kind} in {one.group} groups of 1 (model_parallel_NPU_group: "
                    f"{inputs.workload.tensor}, ep: {inputs.expert}, {inputs.servers.gpus} GPUs)",
                )


def _inside(servers: Servers) -> dict[str, int] | None:
    """Rate (bit/s) and round-trip latency (ps) of a GPU's links to its NVSwitches, if it has any."""
    links = [link for link in servers.topology.links if {link.a, link.b} & servers.topology.inner]
    of_first = [link for link in links if 0 in (link.a, link.b)]
    if not of_first:
        return None
    rate = sum(link.rate_bps for link in of_first)
    return {"rate": rate, "latency": 2000 * math.ceil(max(link.delay_ns for link in of_first))}


def options_of(folder: Path) -> SimaiOptions:
    """The options that repeat the run in a folder."""
    settings = read_json(folder / OPTIONS_FILE)
    return SimaiOptions(
        folder / WORKLOAD_FILE,
        folder / TOPOLOGY_FILE,
        folder / CONFIG_FILE,
        **settings,
        given_as={key: f"{folder / OPTIONS_FILE}: {key}" for key in settings},
    )
