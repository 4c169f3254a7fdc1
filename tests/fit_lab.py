"""The lab that fits are tried on."""

from __future__ import annotations

from typing import Any

LAB: dict[str, Any] = {
    "name": "lab",
    "run": {"duration": "100us"},
    "topology": {"kind": "star", "hosts": 2},
    "traffic": [{"kind": "poisson", "load": 0.4, "sizes": "fb_hadoop"}],
}
DELAY, LATENCY, LOSS = "topology.link.delay", "host.rx_latency", "topology.link.loss"
