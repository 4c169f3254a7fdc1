"""Network namespaces joined by a veth pair, and what is sent between them, in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.model import Scenario
from tailback.scenario.qdisc import ETHERNET_HEADER_BYTES, qdisc_plan
from tailback.scenario.veth import CONSUMER, PRODUCER, Consumer, Ping, UdpFlood, XdpFrames

_MTU = 1500
_UDP_HEADERS = 28


def veth_plan(scenario: Scenario) -> dict[str, Any] | None:
    """Namespaces and what is sent between them, as the engine has it; none where there are none."""
    veth = scenario.veth
    if veth is None:
        return None
    consumer = veth.consumer
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
        "namespaces": [_namespace(PRODUCER, consumer, 0), _namespace(CONSUMER, consumer, consumer.rules)],
        "veths": [
            {
                "a": PRODUCER,
                "b": CONSUMER,
                "ring": veth.ring,
                "stops_when_full": veth.kernel != "6.1",
                "bql": "off" if veth.bql == "none" else veth.bql,
                "tx_usecs_ps": veth.tx_usecs,
                "qdisc": qdisc_plan(veth.qdisc, _MTU),
                "output_ps": veth.output,
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


def _namespace(name: str, costs: Consumer, rules: int) -> dict[str, Any]:
    return {
        "name": name,
        "take_ps": costs.take,
        "stack_ps": costs.stack,
        "rules": rules,
        "rule_ps": costs.rule,
        "echo_ps": round((costs.stack + rules * costs.rule) * costs.echo),
        "jitter_per_mille": round(costs.jitter * 1000),
        "wakeup_ps": costs.wakeup,
        "threaded": costs.napi == "threaded",
        "gro_batch": costs.gro_batch,
    }
