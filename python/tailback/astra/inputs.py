"""Reads and checks the files of an ASTRA-sim run, and the copies in the folder of a result that repeat it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailback.astra.documents import (
    UNDEFINED_KEYS,
    System,
    check_memory,
    read_dims,
    read_groups,
    read_system,
)
from tailback.astra.network import astra_network
from tailback.errors import InputError
from tailback.files import UnchangedFile
from tailback.files.json import read_json
from tailback.hpcc.inputs import CONFIG_FILE, HpccInputs
from tailback.hpcc.plan import network_warnings
from tailback.hpcc.tokens import named, read_bytes, unchanged_file
from tailback.limits import ASTRA_JSON_BYTES, ASTRA_QUEUES, ASTRA_TRACE_BYTES
from tailback.scenario.show import INPUTS_FOLDER
from tailback.text import plural

OPTIONS_FILE = "astra.json"
"""Options of the command line, in the folder of a result."""
MAX_INJECTION_SCALE = 1000
COLLECTIVES_WITH_ALGORITHMS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Collectives that have a list of algorithms in the system file."""
SYSTEM_FILE, LOGICAL_FILE, GROUPS_FILE, TRACES_PREFIX = (
    "system.json",
    "logical.json",
    "groups.json",
    f"{INPUTS_FOLDER}/w",
)


@dataclass(frozen=True)
class AstraOptions:
    """The files and the numbers of ASTRA-sim's command line."""

    workload: str | os.PathLike[str]
    """Prefix of the traces: `workload.RANK.et`."""
    system: str | os.PathLike[str]
    network: str | os.PathLike[str]
    logical_topology: str | os.PathLike[str]
    comm_group: str | os.PathLike[str] = "empty"
    """No groups if `empty` is part of the name."""
    remote_memory: str | os.PathLike[str] | None = None
    num_queues_per_dim: int = 1
    injection_scale: float = 1.0
    """Factor of the endpoint delay."""
    native: bool = False
    """Use Tailback's own models of NICs and switches instead of the ns-3 backend's."""


@dataclass(frozen=True)
class AstraInputs:
    """The inputs of a run. `network` has config.txt and the physical topology; `traces` are by rank."""

    network: HpccInputs
    system: System
    dims: list[int]
    groups: dict[int, list[int]]
    options: AstraOptions
    trace_names: list[str]
    traces: list[UnchangedFile]
    """The engine reads them during the run."""
    files: dict[str, bytes]

    @property
    def warnings(self) -> list[str]:
        """Warnings about inputs that can run, a line each."""
        given = self.system.model_fields_set
        file = named(self.options.system)
        undefined = [key for key in UNDEFINED_KEYS if key.replace("-", "_") not in given]
        texts = [
            f"{key} is not given, which ASTRA-sim leaves undefined: taken as {UNDEFINED_KEYS[key]}"
            for key in undefined
        ]
        if not self.system.local_mem_bw and not self.system.replay_only:
            texts.append("local-mem-bw is not given: reductions never end, as in ASTRA-sim")
        lists = {
            f"{kind.replace('_', '-')}-implementation": found
            for kind in COLLECTIVES_WITH_ALGORITHMS
            if (found := getattr(self.system, f"{kind}_implementation"))
        }
        for key, found in lists.items():
            if len(found) < len(self.dims) and not any(one["of_all"] for one in found):
                texts.append(
                    f"{key} has {len(found)} of {plural(len(self.dims), 'dimension')}: its collectives leave out the "
                    "others, as in ASTRA-sim"
                )
        part = any(len(ranks) < len(self.traces) for ranks in self.groups.values())
        for key, found in lists.items():
            if part and len(found) > 1 and any(one["algorithm"] != "ring" for one in found):
                texts.append(
                    f"{key} has more than one algorithm: groups of some ranks take a ring, as in ASTRA-sim"
                )
        return network_warnings(self.network) + [f"{file}: warning: {one}" for one in texts]

    def plan(self) -> dict[str, Any]:
        """The plan of the work: rates in B/s and FLOP/s, delays in ns."""
        system = self.system
        return {
            "files": self.trace_names,
            "dims": self.dims,
            "queues_per_dim": self.options.num_queues_per_dim,
            "endpoint_delay": int(system.endpoint_delay * self.options.injection_scale),
            "active_chunks": system.active_chunks_per_dimension,
            "splits": system.preferred_dataset_splits,
            "policy": system.scheduling_policy.lower(),
            "local_bw_aware": system.collective_optimization == "localBWAware",
            "local_mem_bw": system.local_mem_bw * 1e9,
            "peak_perf": system.peak_perf * 1e12,
            "roofline": system.roofline_enabled,
            "replay_only": system.replay_only,
            "implementations": {
                kind: getattr(system, f"{kind}_implementation") for kind in COLLECTIVES_WITH_ALGORITHMS
            },
            "groups": self.groups,
        }


def load_inputs(options: AstraOptions, *, beside: bool = False, ignore: Collection[str] = ()) -> AstraInputs:
    """Reads the files of a run.

    A relative TOPOLOGY_FILE, and `beside`: see `tailback.hpcc.inputs.load_inputs`.

    Raises:
        InputError: a file is missing or not valid; the message has its place.
    """
    texts = {SYSTEM_FILE: _text(options.system), LOGICAL_FILE: _text(options.logical_topology)}
    system = read_system(named(options.system), texts[SYSTEM_FILE])
    dims = read_dims(named(options.logical_topology), texts[LOGICAL_FILE])
    network = astra_network(options.network, beside=beside, ignore=ignore)
    ranks = 1
    for size in dims:
        ranks *= size
    _check_hosts(network, ranks, named(options.logical_topology))
    groups: dict[int, list[int]] = {}
    if "empty" not in os.fspath(options.comm_group):
        texts[GROUPS_FILE] = _text(options.comm_group)
        groups = read_groups(named(options.comm_group), texts[GROUPS_FILE], ranks)
    if options.remote_memory is not None:
        check_memory(named(options.remote_memory), _text(options.remote_memory))
    if not 1 <= options.num_queues_per_dim <= ASTRA_QUEUES:
        text = f"expected 1 to {ASTRA_QUEUES}, found {options.num_queues_per_dim}"
        raise InputError.at("--num-queues-per-dim", text)
    if not 0 <= options.injection_scale <= MAX_INJECTION_SCALE:
        text = f"expected 0 to {MAX_INJECTION_SCALE}, found {options.injection_scale}"
        raise InputError.at("--injection-scale", text)
    names = [f"{named(options.workload)}.{rank}.et" for rank in range(ranks)]
    traces = [
        unchanged_file(
            Path(f"{os.fspath(options.workload)}.{rank}.et"),
            ASTRA_TRACE_BYTES,
            names[rank],
            f"the trace of rank {rank} of {ranks} (PREFIX.RANK.et)",
        )
        for rank in range(ranks)
    ]
    settings = {
        "num_queues_per_dim": options.num_queues_per_dim,
        "injection_scale": options.injection_scale,
        "native": options.native,
        "groups": GROUPS_FILE in texts,
    }
    files = {
        **network.files,
        **texts,
        OPTIONS_FILE: (json.dumps(settings) + "\n").encode(),
    }
    return AstraInputs(network, system, dims, groups, options, names, traces, files)


def _text(path: str | os.PathLike[str]) -> bytes:
    return read_bytes(Path(path), ASTRA_JSON_BYTES, named(path))


def _check_hosts(network: HpccInputs, ranks: int, place: str) -> None:
    """Checks that a host exists for each rank: rank i is node i."""
    topology = network.topology
    for rank in range(ranks):
        if rank >= topology.nodes or not topology.is_host[rank]:
            there = "a switch" if rank < topology.nodes else f"not among {topology.nodes} nodes"
            text = (
                f"expected a host for each of {ranks} ranks: node {rank} of the physical topology is {there}"
            )
            raise InputError.at(place, f"logical-dims: {text}")


def options_of(folder: Path) -> AstraOptions:
    """The options that repeat the run in a folder."""
    settings = read_json(folder / OPTIONS_FILE)
    return AstraOptions(
        folder / TRACES_PREFIX,
        folder / SYSTEM_FILE,
        folder / CONFIG_FILE,
        folder / LOGICAL_FILE,
        folder / GROUPS_FILE if settings["groups"] else "empty",
        None,
        settings["num_queues_per_dim"],
        settings["injection_scale"],
        settings["native"],
    )
