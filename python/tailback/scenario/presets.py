"""Settings of fabrics by their rate, and of NICs: `preset: 400g` fills in what a scenario does not give.

Thresholds and increases of DCQCN grow in proportion to the rate, as those of Li et al. (HPCC), SIGCOMM 2019.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Fills = list[tuple[str, Any, str]]
"""Path, value as in a file, source."""

_PROPORTION = "in proportion to the rate, as Li et al. (HPCC), SIGCOMM 2019, section 5.1"
_QUANTA = "IEEE 802.3 31B.3.7, as SONiC's buffer_headroom_mellanox.lua has it"


class Fabric(NamedTuple):
    """What is known of a generation of fabrics."""

    gbps: int
    buffer: str
    """Packet memory of a switch."""
    buffer_source: str
    quanta: int
    """In which a port obeys a pause."""

    @property
    def thresholds(self) -> tuple[int, int]:
        """k_min and k_max of ECN, bytes."""
        return 1500 * self.gbps, 15000 * self.gbps

    @property
    def fills(self) -> Fills:
        """What it sets."""
        low, high = (f"{threshold // 1000}KB" for threshold in self.thresholds)
        thresholds = f'"RoCE Rocks without PFC", section 3.1: 150 KB and 1500 KB at 100 Gbit/s; {_PROPORTION}'
        rises = f"5 and 50 Mb/s at 25 Gbit/s; {_PROPORTION}"
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
            ("switch.pfc.response_delay", f"{delay_ps}ps", f"{_QUANTA}: {self.quanta} quanta"),
        ]


_SPECTRUM = ("16MB", "NVIDIA Spectrum (SN2000): 16 MB")
_SPECTRUM_2 = ("42MB", "NVIDIA Spectrum-2 (SN3000): 42 MB, fully shared")
_SPECTRUM_3 = ("64MB", "NVIDIA Spectrum-3 (SN4000): 64 MB, fully shared")
_P64 = (
    "182696104B",
    "SONiC sonic-config-engine, buffer-ft2-p64.json, 64 ports of 8 lanes: 164,733,224 B, and 17,962,880 B of "
    "headroom",
)

FABRICS = {
    "100g": Fabric(100, *_SPECTRUM, quanta=394),
    "200g": Fabric(200, *_SPECTRUM_2, quanta=453),
    "400g": Fabric(400, *_SPECTRUM_3, quanta=905),
    "800g": Fabric(800, *_P64, quanta=905),
}

SWITCHES = {"spectrum": _SPECTRUM, "spectrum-2": _SPECTRUM_2, "spectrum-3": _SPECTRUM_3}

_RESTART = "host.transport.slow_restart"
_CNPS = "host.transport.losses_are_cnps"
_ETH = (
    "ETH Zurich, incast-bench: CNPs handled less those sent to ConnectX senders are NAKs and slow-restart "
    "CNPs"
)
_ROCE_ACCL = (
    'NVIDIA, "Adaptive Retransmission: Parameters Control", sample of ROCE_ACCL: slow_restart 1, tx_window 0'
)

NICS: dict[str, Fills] = {
    "connectx-4-lx": [
        (
            _RESTART,
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
            _RESTART,
            "loss",
            "openfabric-systems/simllm: 73.9 Gbit/s at two to one without marks; 25 without a slow restart",
        ),
        (_CNPS, True, f"{_ETH}; simllm: senders handle 2.24 times the CNPs sent"),
    ],
    "connectx-6-dx": [
        (_RESTART, "timeout", _ROCE_ACCL),
        (_CNPS, True, _ETH),
    ],
    "bluefield": [
        (_RESTART, "timeout", _ROCE_ACCL),
        (_CNPS, False, "ETH Zurich, incast-bench: NAKs are no CNPs there"),
    ],
    "ideal": [
        ("host.transport.nak_delay", "0s", "its name: no slow path"),
        ("host.transport.nak_reaction", "0s", "its name: at once"),
        (_RESTART, "never", "its name; InfiniBand volume 1, section 9.7, has no window"),
        (_CNPS, False, "Zhu et al., SIGCOMM 2015: only CNPs are CNPs"),
    ],
}

PRESETS: dict[str, Fills] = {
    **{name: fabric.fills for name, fabric in FABRICS.items()},
    **{name: [("switch.buffer", *buffer)] for name, buffer in SWITCHES.items()},
    **NICS,
}
"""What each preset sets."""


def fills_of(data: dict[str, Any]) -> Fills:
    """What the presets that a scenario names set, the first one first; sources begin with the preset's name.

    Names that are none are left to the model. What belongs to another profile of DCQCN, or to a network that
    has no such setting, stays as it is.
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
        *(_OF_THE_PROFILE if own_profile else []),
        *(["topology.link.rate"] if kind in WITHOUT_LINK else []),
    ]
    return [
        (path, value, f"preset {name}: {source}")
        for name in known
        for path, value, source in PRESETS[name]
        if path not in skipped
    ]


_OF_THE_PROFILE = (
    "host.dcqcn.rpg_ai_rate",
    "host.dcqcn.rpg_hai_rate",
    "host.dcqcn.min_time_between_cnps",
)
WITHOUT_LINK = (None, "graph", "file", "veth")
"""Kinds of network whose links are not one setting."""
