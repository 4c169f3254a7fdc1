"""Presets, which fill in settings that a scenario does not give: `preset: 400g` sets those of a fabric, a switch
or a NIC, and `qos: lossless-with-qos` those of traffic classes.

ECN thresholds and increases of DCQCN grow in proportion to the rate, as in Li et al. (HPCC), SIGCOMM 2019.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from tailback.errors import Path
from tailback.scenario.document import Document, from_python

PresetValues = list[tuple[str, Any, str]]
"""Path, value as in a file, source."""

_PROPORTION_SOURCE = "in proportion to the rate, as Li et al. (HPCC), SIGCOMM 2019, section 5.1"
_QUANTA_SOURCE = "IEEE 802.3 31B.3.7, as SONiC's buffer_headroom_mellanox.lua has it"


class Fabric(NamedTuple):
    """A generation of fabrics."""

    gbps: int
    buffer: str
    """Packet memory of a switch."""
    buffer_source: str
    quanta: int
    """Quanta within which a port obeys a pause."""

    @property
    def thresholds(self) -> tuple[int, int]:
        """k_min and k_max of ECN, bytes."""
        return 1500 * self.gbps, 15000 * self.gbps

    @property
    def fills(self) -> PresetValues:
        """The settings of the preset."""
        low, high = (f"{threshold // 1000}KB" for threshold in self.thresholds)
        thresholds = (
            f'"RoCE Rocks without PFC", section 3.1: 150 KB and 1500 KB at 100 Gbit/s; {_PROPORTION_SOURCE}'
        )
        rises = f"5 and 50 Mb/s at 25 Gbit/s; {_PROPORTION_SOURCE}"
        delay_ps = self.quanta * 512 * 1000 // self.gbps
        return [
            ("topology.link.rate", f"{self.gbps}Gbps", "its name"),
            (
                "host.mtu",
                "4096B",
                "InfiniBand: the largest path MTU; assumption: jumbo frames, usual there",
            ),
            ("host.dcqcn.rpg_ai_rate", self.gbps // 5, rises),
            ("host.dcqcn.rpg_hai_rate", self.gbps * 2, rises),
            ("switch.buffer", self.buffer, self.buffer_source),
            ("switch.ecn.k_min", low, thresholds),
            ("switch.ecn.k_max", high, thresholds),
            ("switch.pfc.response_delay", f"{delay_ps}ps", f"{_QUANTA_SOURCE}: {self.quanta} quanta"),
        ]


_SPECTRUM_BUFFER = ("16MB", "NVIDIA Spectrum (SN2000): 16 MB")
_SPECTRUM_2_BUFFER = ("42MB", "NVIDIA Spectrum-2 (SN3000): 42 MB, fully shared")
_SPECTRUM_3_BUFFER = ("64MB", "NVIDIA Spectrum-3 (SN4000): 64 MB, fully shared")
_FT2_P64_BUFFER = (
    "182696104B",
    "SONiC sonic-config-engine, buffer-ft2-p64.json, 64 ports of 8 lanes: 164,733,224 B, and 17,962,880 B of "
    "headroom",
)

FABRIC_PRESETS = {
    "100g": Fabric(100, *_SPECTRUM_BUFFER, quanta=394),
    "200g": Fabric(200, *_SPECTRUM_2_BUFFER, quanta=453),
    "400g": Fabric(400, *_SPECTRUM_3_BUFFER, quanta=905),
    "800g": Fabric(800, *_FT2_P64_BUFFER, quanta=905),
}

SWITCH_BUFFERS = {
    "spectrum": _SPECTRUM_BUFFER,
    "spectrum-2": _SPECTRUM_2_BUFFER,
    "spectrum-3": _SPECTRUM_3_BUFFER,
}

_SLOW_RESTART_KEY = "host.transport.slow_restart"
_LOSSES_ARE_CNPS_KEY = "host.transport.losses_are_cnps"
_INCAST_BENCH_SOURCE = (
    "ETH Zurich, incast-bench: CNPs handled less those sent to ConnectX senders are NAKs and slow-restart "
    "CNPs"
)
_ROCE_ACCL_SOURCE = (
    'NVIDIA, "Adaptive Retransmission: Parameters Control", sample of ROCE_ACCL: slow_restart 1, tx_window 0'
)

NIC_PRESETS: dict[str, PresetValues] = {
    "connectx-4-lx": [
        (
            _SLOW_RESTART_KEY,
            "loss",
            "remote-lab.net, ring of 1024: bandwidth, drops and NAKs, of which none comes out without",
        ),
    ],
    "connectx-5": [
        (
            "host.dcqcn.min_time_between_cnps",
            2,
            "a published mlxconfig query of a ConnectX-5",
        ),
        (
            "host.transport.nak_delay",
            "20us",
            'NVIDIA developer forum 358441: a slow path once per gap, "almost 20 us"',
        ),
        (
            _SLOW_RESTART_KEY,
            "loss",
            "openfabric-systems/simllm: 73.9 Gbit/s at two to one without marks; 25 without a slow restart",
        ),
        (
            _LOSSES_ARE_CNPS_KEY,
            True,
            f"{_INCAST_BENCH_SOURCE}; simllm: senders handle 2.24 times the CNPs sent",
        ),
    ],
    "connectx-6-dx": [
        (_SLOW_RESTART_KEY, "timeout", _ROCE_ACCL_SOURCE),
        (_LOSSES_ARE_CNPS_KEY, True, _INCAST_BENCH_SOURCE),
    ],
    "bluefield": [
        (_SLOW_RESTART_KEY, "timeout", _ROCE_ACCL_SOURCE),
        (_LOSSES_ARE_CNPS_KEY, False, "ETH Zurich, incast-bench: NAKs are no CNPs there"),
    ],
    "ideal": [
        ("host.transport.nak_delay", "0s", "its name: no slow path"),
        ("host.transport.nak_reaction", "0s", "its name: at once"),
        (_SLOW_RESTART_KEY, "never", "its name; InfiniBand volume 1, section 9.7, has no window"),
        (_LOSSES_ARE_CNPS_KEY, False, "Zhu et al., SIGCOMM 2015: only CNPs are CNPs"),
    ],
}

PRESETS: dict[str, PresetValues] = {
    **{name: fabric.fills for name, fabric in FABRIC_PRESETS.items()},
    **{name: [("switch.buffer", *buffer)] for name, buffer in SWITCH_BUFFERS.items()},
    **NIC_PRESETS,
}
"""Settings of each preset."""


def fills_of(data: dict[str, Any]) -> PresetValues:
    """Settings of the presets that a scenario names, in their order; sources begin with the preset's name.

    Unknown names are left for the model to refuse. Settings of another DCQCN profile, or that the network does not
    have, are skipped.
    """
    names = data.get("preset")
    listed = names if isinstance(names, list) else [names]
    known = [name for name in listed if isinstance(name, str) and name in PRESETS]
    host = data.get("host")
    dcqcn = host.get("dcqcn") if isinstance(host, dict) else None
    own_profile = isinstance(dcqcn, dict) and dcqcn.get("profile", "connectx") != "connectx"
    topology = data.get("topology")
    kind = topology.get("kind") if isinstance(topology, dict) else None
    skipped = [
        *(_DCQCN_PROFILE_KEYS if own_profile else []),
        *(["topology.link.rate"] if kind in TOPOLOGIES_WITHOUT_LINK else []),
    ]
    return [
        (path, value, f"preset {name}: {source}")
        for name in known
        for path, value, source in PRESETS[name]
        if path not in skipped
    ]


_DCQCN_PROFILE_KEYS = (
    "host.dcqcn.rpg_ai_rate",
    "host.dcqcn.rpg_hai_rate",
    "host.dcqcn.min_time_between_cnps",
)
TOPOLOGIES_WITHOUT_LINK = (None, "graph", "file", "veth")
"""Kinds of topology without topology.link."""


_ROCE_ROCKS_SECTION = '"RoCE Rocks without PFC", section'
_DOC_2591 = "Mellanox community DOC-2591"
_EQUAL_SHARES_SOURCE = f"{_ROCE_ROCKS_SECTION} 2.2: RoCE isolated in scheduling; assumption: equal shares"
_NO_QOS_SOURCE = f"{_ROCE_ROCKS_SECTION} 3.1: the default configuration, without quality of service"
_ECN_THRESHOLDS_SOURCE = f"{_ROCE_ROCKS_SECTION} 3.1"

QOS_SETUPS: dict[str, PresetValues] = {
    "lossless-with-qos": [
        (
            "host.qos.trust",
            "dscp",
            f"{_ROCE_ROCKS_SECTION} 2.2: DSCP; NVIDIA's RoCE guides: mlnx_qos --trust dscp",
        ),
        (
            "host.cnp_priority",
            6,
            f"{_ROCE_ROCKS_SECTION} 2.2: CNPs in a class of their own; mlx5: cnp_dscp 48, prio 6",
        ),
        ("host.strict", [6], f"{_DOC_2591}: CNPs in priority 6, strict"),
        ("host.weights", {"0": 50, "3": 50}, _EQUAL_SHARES_SOURCE),
        ("switch.qos.trust", "dscp", f"{_ROCE_ROCKS_SECTION} 2.2: DSCP; NVIDIA's RoCE guides: trust L3"),
        ("switch.lossless", [3], f"{_DOC_2591}: RoCE in priority 3, lossless"),
        ("switch.strict", [6], f"{_DOC_2591}: CNPs in priority 6, strict"),
        ("switch.weights", {"0": 50, "3": 50}, _EQUAL_SHARES_SOURCE),
        ("switch.pools.lossless", "4MiB", f"{_DOC_2591}: a pool of 4 MiB for RoCE"),
        (
            "switch.pools.lossy",
            "auto",
            f"{_ROCE_ROCKS_SECTION} 2.2: guaranteed buffering; the rest is for all others",
        ),
        ("switch.ingress_alpha", 2.0, f"{_DOC_2591}: alpha 2"),
        ("switch.ecn.k_min", "150KB", _ECN_THRESHOLDS_SOURCE),
        ("switch.ecn.k_max", "1500KB", _ECN_THRESHOLDS_SOURCE),
        ("switch.ecn.priorities", [3], f"{_DOC_2591}: ECN in the traffic class of RoCE"),
    ],
    "lossy-default": [
        ("host.qos.trust", "port", _NO_QOS_SOURCE),
        ("host.qos.default_priority", 0, _NO_QOS_SOURCE),
        ("host.strict", [], _NO_QOS_SOURCE),
        ("host.weights", None, _NO_QOS_SOURCE),
        ("switch.qos.trust", "port", _NO_QOS_SOURCE),
        ("switch.qos.default_priority", 0, _NO_QOS_SOURCE),
        ("switch.lossless", [], _NO_QOS_SOURCE),
        ("switch.strict", [], _NO_QOS_SOURCE),
        ("switch.weights", None, _NO_QOS_SOURCE),
        ("switch.pools", None, _NO_QOS_SOURCE),
        ("switch.ecn.k_min", "150KB", _ECN_THRESHOLDS_SOURCE),
        ("switch.ecn.k_max", "1500KB", _ECN_THRESHOLDS_SOURCE),
        ("switch.ecn.priorities", None, _NO_QOS_SOURCE),
    ],
}
"""Settings of each value of `qos`."""


class FilledSettings(NamedTuple):
    """Values that presets have filled in, and those that the scenario overrides, by path."""

    sources: dict[Path, str]
    """Sources of the values that were filled in."""
    given: dict[Path, tuple[Any, str]]
    """Overridden values of presets, with their sources."""


def fill(document: Document) -> FilledSettings:
    """Fills in the settings of `preset` and `qos` that the document does not give.

    A preset takes precedence over `qos`: its thresholds fit its rate. Unknown names are left for the model to
    refuse.
    """
    filled = FilledSettings({}, {})
    if isinstance(document.data, dict):
        name = document.data.get("qos")
        setup = QOS_SETUPS.get(name, []) if isinstance(name, str) else []
        named = [(path, value, f"{name}: {source}") for path, value, source in setup]
        for key, fills in (("preset", fills_of(document.data)), ("qos", named)):
            place = document.origin((key,))
            for dotted, value, source in fills:
                path: Path = tuple(dotted.split("."))
                if _is_free(document.data, path):
                    new = from_python({"value": copy.deepcopy(value)}, place)
                    document.put(path, Document(new.data["value"], {(): place}))
                    filled.sources[path] = source
                elif path not in filled.sources:
                    filled.given.setdefault(path, (value, source))
    return filled


def _is_free(data: Any, path: Path) -> bool:
    """True if nothing is given at a path, and everything above it is a mapping or missing."""
    for part in path:
        if not isinstance(data, dict):
            return False
        if part not in data:
            return True
        data = data[part]
    return False
