"""Network namespaces joined by a veth pair, and what is sent between them, in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.model import Scenario
from tailback.scenario.qdisc import ETHERNET_HEADER_BYTES, qdisc_plan
from tailback.scenario.veth import CONSUMER, PRODUCER, Ping, UdpFlood, XdpFrames

_FRAME = 1500 + ETHERNET_HEADER_BYTES
_UDP_HEADERS = 28


def veth_plan(scenario: Scenario) -> dict[str, Any] | None:
    """Namespaces and what is sent between them, as the engine has it; none where there are none."""
    veth = scenario.veth
    if veth is None:
        return None
    items = list(enumerate(scenario.traffic))

    def common(index: int, item: UdpFlood | Ping | XdpFrames, frame: int) -> dict[str, Any]:
        return {
            "name": f"{item.kind}{index}",
            "src": item.from_,
            "dst": item.to,
            "frame_bytes": frame,
            "start_ps": item.start,
            "stop_ps": item.stop,
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
            {
                **common(index, item, item.payload + _UDP_HEADERS + ETHERNET_HEADER_BYTES),
                "send_ps": item.send,
                "interval_ps": item.interval,
                "sndbuf_bytes": item.sndbuf,
                "blocks": item.blocking,
            }
            for index, item in items
            if isinstance(item, UdpFlood)
        ],
        "pings": [
            {
                **common(index, item, item.payload + _UDP_HEADERS + ETHERNET_HEADER_BYTES),
                "interval_ps": item.interval,
                "spread_ps": item.spread,
            }
            for index, item in items
            if isinstance(item, Ping)
        ],
        "frames": [
            {**common(index, item, item.frame), "batch": item.batch, "interval_ps": item.interval}
            for index, item in items
            if isinstance(item, XdpFrames)
        ],
    }
