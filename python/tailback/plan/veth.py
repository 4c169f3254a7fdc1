"""Network namespaces joined by a veth pair, and what is sent between them, in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.model import Scenario
from tailback.scenario.qdisc import qdisc_plan
from tailback.scenario.veth import CONSUMER, PRODUCER, Ping, UdpFlood, XdpFrames
from tailback.wire import ETHERNET_HEADER_BYTES

_FRAME = 1500 + ETHERNET_HEADER_BYTES
_UDP_HEADERS = 28


def veth_plan(scenario: Scenario) -> dict[str, Any] | None:
    """Namespaces and what is sent between them, as the engine has it; none where there are none."""
    veth = scenario.veth
    if veth is None:
        return None
    items = list(enumerate(scenario.traffic))

    def sends(index: int, item: UdpFlood | Ping | XdpFrames, frame: int) -> dict[str, Any]:
        return {
            **item.plan(),
            "item": f"{item.kind}{index}",
            "src": item.from_,
            "dst": item.to,
            "frame_bytes": frame,
        }

    return {
        "namespaces": [
            {"name": PRODUCER, "costs": veth.consumer.plan(rules=0)},
            {"name": CONSUMER, "costs": veth.consumer.plan()},
        ],
        "veths": [
            {
                "a": PRODUCER,
                "b": CONSUMER,
                "veth": veth.plan(),
                "frame_bytes": _FRAME,
                "qdisc": qdisc_plan(veth.qdisc, _FRAME),
            }
        ],
        "datagrams": [
            sends(index, item, item.payload + _UDP_HEADERS + ETHERNET_HEADER_BYTES)
            for index, item in items
            if isinstance(item, UdpFlood)
        ],
        "pings": [
            sends(index, item, item.payload + _UDP_HEADERS + ETHERNET_HEADER_BYTES)
            for index, item in items
            if isinstance(item, Ping)
        ],
        "frames": [sends(index, item, item.frame) for index, item in items if isinstance(item, XdpFrames)],
    }
