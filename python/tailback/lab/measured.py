"""Makes the run of a scenario from the records of a lab test that it models: measured, not simulated.

Counters are differences between before and after the test. If they were also recorded during the test, their
series have that resolution; perftest reports a mean, so throughput is constant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from tailback.errors import InputError
from tailback.lab.model import Lab
from tailback.lab.readers import BITS_PER_MIB, MAX_COUNTER
from tailback.lab.recorded import GAUGES, RecordedTest, duration_s
from tailback.live.recording import LiveRecording, empty_flows, flows_of, signals_of
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import Scenario

PS_PER_S, PS_PER_US = 10**12, 10**6
MEASURED_FILE = "measured.csv"
"""For `tailback fit`, in the folder of the result."""
PRINT_RESOLUTION = 0.005
"""Half of the last of the two decimals that perftest and mpstat print."""
PERFTEST_TOLERANCE = 0.01
"""Relative accuracy of perftest in that file: an assumption, which users may edit there."""
_HOST_SERIES = ("np_cnp_sent", "rp_cnp_handled", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err")
"""Host counters that are series in the simulator."""
_DISCARD_KEYS = ("discarded_out_of_order", "discarded_duplicate")
_MAX_BINS = 2048

Values = list[float]


def result_of(lab: Lab, scenario: Scenario, one: RecordedTest, latencies: list[RecordedTest]) -> Result:
    """Makes the run of a bandwidth test. `latencies` are latency tests of the same lab, which are included."""
    made = _TestRun(lab, scenario, one)
    series, entities = made.series_table(), made.entities_table()
    recording = LiveRecording(
        flows=flows_of(made.flows()),
        series=series,
        entities=entities,
        signals=signals_of(series, entities, made.bin_ps, made.bins * made.bin_ps),
        counters=made.counters_table(),
        meta_json=json.dumps(made.meta(latencies)),
    )
    result = Result.from_recording(scenario, make_plan(scenario), recording, 0.0, 0.0, False)
    result.outputs[MEASURED_FILE] = made.observations(latencies).encode()
    return result


def _grew(then: int, now: int) -> int:
    """Difference of a counter; one that fell was reset."""
    return now - then if now >= then else now


class _TestRun:
    def __init__(self, lab: Lab, scenario: Scenario, one: RecordedTest) -> None:
        self.lab, self.scenario, self.one = lab, scenario, one
        self.seconds = duration_s(one.test, one.result)
        self.bins = max(1, min(_MAX_BINS, round(self.seconds)))
        self.bin_ps = max(1, round(self.seconds * PS_PER_S / self.bins))
        names = {name: host.model or name for name, host in lab.hosts.items()}
        self.names = names
        sends = [(names[one.test.client], names[one.test.server])]
        self.sends = [*sends, sends[0][::-1]] if one.test.bidirectional else sends
        bandwidth = one.result.bandwidth_bps or 0.0
        self.each_bps = bandwidth / len(self.sends)
        self.delivered = round(self.each_bps * self.seconds / 8)
        mtu = make_plan(scenario)["nics"][0]["mtu"]
        # Assumes that nothing was retransmitted: no counter shows it.
        self.packets = self.delivered // one.result.message_bytes * -(-one.result.message_bytes // mtu)
        self.series: dict[tuple[str, str], Values] = {}
        self.entities: dict[str, dict[str, str | None]] = {}
        self.counters = list(self._counters())
        for row in self.counters:
            if row["value"] > MAX_COUNTER:
                text = f"found {row['counter']} of {row['node']} that grew by 2^63 or more, expected less"
                raise InputError.at(one.test.name, text)
        self._fill()

    # Counters

    def _grown(self, kind: str, key: tuple[str, str]) -> dict[str, list[int]]:
        """Differences of counters between snapshots; a counter that is missing in the first starts at 0."""
        seen: list[tuple[float, dict[str, int]]] = []
        for shot in self.one.snapshots:
            found = getattr(shot, kind).get(key)
            if found is not None:
                seen.append((shot.at_s, found if isinstance(found, dict) else found.counters))
        if len(seen) == 1:
            seen.insert(0, (0.0, {}))
        if not seen:
            return {}
        names = {name for _, values in seen for name in values}
        return {
            name: [_grew(then.get(name, 0), now.get(name, 0)) for (_, then), (_, now) in pairwise(seen)]
            if name not in GAUGES
            # The most that was seen.
            else [max(values.get(name, 0) for _, values in seen)]
            for name in sorted(names)
        }

    def _shaped(self, kind: str, key: tuple[str, str], name: str) -> Values:
        """A counter as counts per bin."""
        grown = self._grown(kind, key).get(name)
        if grown is None:
            return [0.0] * self.bins
        times = [shot.at_s for shot in self.one.snapshots if key in getattr(shot, kind)]
        times = times if len(times) > 1 else [0.0, self.seconds]
        width = self.bin_ps / PS_PER_S
        spans = [*pairwise(times)]

        def share(number: int, span: tuple[float, float]) -> float:
            """Share of the time between two readings that lies in a bin."""
            first, last = max(number * width, span[0]), min((number + 1) * width, span[1])
            return max(0.0, last - first) / max(span[1] - span[0], 1e-9)

        even = [
            sum(count * share(number, span) for count, span in zip(grown, spans, strict=True))
            for number in range(self.bins)
        ]
        # Rounded cumulatively, so that the total is exact.
        until = [0, *map(round, accumulate(even))]
        return [float(now - then) for then, now in pairwise(until)]

    def _counters(self) -> Iterator[dict[str, Any]]:
        for nic in self.lab.nics:
            node = self.names[nic.host]
            found = self._grown("ethtool", (nic.host, nic.interface)) | self._grown(
                "rdma", (nic.host, nic.device)
            )
            for name, grown in found.items():
                yield {"node": node, "port": "", "counter": name, "value": sum(grown)}
        for bridge in self.lab.bridges:
            node = self.names[bridge.host]
            for port in bridge.ports:
                key = (bridge.host, port.interface)
                for name, grown in (self._grown("ethtool", key) | self._grown("tc", key)).items():
                    where = f"{node}:{port.towards or port.interface}"
                    yield {"node": node, "port": where, "counter": name, "value": sum(grown)}

    def counter(self, node: str, name: str, port: str = "") -> int:
        """The difference of a counter; 0 if it is not known."""
        return sum(
            row["value"]
            for row in self.counters
            if (row["node"], row["port"], row["counter"]) == (node, port, name)
        )

    def counters_table(self) -> pa.Table:
        text = ((name, pa.string()) for name in ("node", "port", "counter"))
        return pa.Table.from_pylist(self.counters, schema=pa.schema([*text, ("value", pa.int64())]))

    # Series

    def _put(
        self, entity: str, kind: str, node: str, metric: str, values: Values, peer: str | None = None
    ) -> None:
        self.entities[entity] = {"entity": entity, "kind": kind, "node": node, "peer": peer, "item": None}
        self.series[entity, metric] = values

    def _fill(self) -> None:
        even = [self.each_bps] * self.bins
        none = [0.0] * self.bins
        for nic in self.lab.nics:
            node = self.names[nic.host]
            for way, at in (("tx", 0), ("rx", 1)):
                busy = any(pair[at] == node for pair in self.sends)
                self._put(node, "host", node, f"goodput_{way}_bps", even if busy else none)
            for name in _HOST_SERIES:
                self._put(node, "host", node, name, self._shaped("rdma", (nic.host, nic.device), name))
        for src, dst in self.sends:
            self._put(f"{src}-{dst}/qp0", "queue-pair", src, "goodput_bps", even, dst)
        for bridge in self.lab.bridges:
            node = self.names[bridge.host]
            for port in bridge.ports:
                if port.towards is None:
                    continue
                key, where = (bridge.host, port.interface), f"{node}:{port.towards}"
                ring = f"{where}/rx-ring"
                self._put(
                    ring,
                    "rx-ring",
                    node,
                    "dropped",
                    self._shaped("ethtool", key, "rx_out_of_buffer"),
                    port.towards,
                )
                if any(key in shot.tc for shot in self.one.snapshots):
                    queue = f"{where}/qdisc"
                    self._put(
                        queue,
                        "qdisc",
                        node,
                        "ecn_marked",
                        self._shaped("tc", key, "red_marked"),
                        port.towards,
                    )
                    self._put(
                        queue, "qdisc", node, "dropped", self._shaped("tc", key, "qdisc_drops"), port.towards
                    )
                    waiting = [
                        float(shot.tc[key].backlog_bytes) for shot in self.one.snapshots if key in shot.tc
                    ]
                    mean = waiting[1:-1] or waiting
                    for metric in ("queue_mean_bytes", "queue_max_bytes"):
                        self._put(
                            queue, "qdisc", node, metric, [sum(mean) / len(mean)] * self.bins, port.towards
                        )
            for core, shares in self.one.cores.get(bridge.host, {}).items():
                for name in ("softirq", "irq", "guest"):
                    self._put(f"{node}/cpu{core}", "core", node, f"{name}_share", [shares[name]] * self.bins)

    def series_table(self) -> pa.Table:
        keys = list(self.series)
        times = [at * self.bin_ps for _ in keys for at in range(self.bins)]
        text = {
            "entity": [entity for entity, _ in keys for _ in range(self.bins)],
            "metric": [metric for _, metric in keys for _ in range(self.bins)],
        }
        return pa.table(
            {
                "time_ps": pa.array(times, pa.int64()),
                **{name: pa.array(values, pa.string()).dictionary_encode() for name, values in text.items()},
                "value": pa.array([value for key in keys for value in self.series[key]], pa.float64()),
            }
        )

    def entities_table(self) -> pa.Table:
        kinds = pa.schema([(name, pa.string()) for name in ("entity", "kind", "node", "peer", "item")])
        return pa.Table.from_pylist(list(self.entities.values()), schema=kinds)

    # Facts of the whole run

    def flows(self) -> list[dict[str, Any]]:
        """A row for each direction of the test."""
        test, result = self.one.test, self.one.result
        delivered, rows = self.delivered, []
        for index, (src, dst) in enumerate(self.sends):
            row: dict[str, Any] = dict.fromkeys(empty_flows().column_names)
            row |= {
                "flow": index,
                "item": test.name,
                "protocol": "roce",
                "src": src,
                "dst": dst,
                "qp": 0,
                "priority": 0,
                "start_ps": 0,
                "end_ps": self.bins * self.bin_ps,
                "state": "done",
                "message_bytes": result.message_bytes,
                "messages_posted": delivered // result.message_bytes,
                "messages_completed": delivered // result.message_bytes,
                "bytes_delivered": delivered,
                "goodput_bps": self.each_bps,
                "packets_sent": self.packets,
                "packets_retransmitted": 0,
                "rate_bps": self.each_bps,
            }
            for name in ("packet_seq_err", "local_ack_timeout_err", "rp_cnp_handled"):
                row[name] = self.counter(src, name)
            for name in ("out_of_sequence", "duplicate_request", "np_cnp_sent", "np_ecn_marked_roce_packets"):
                row[name] = self.counter(dst, name)
            rows.append(row)
        return rows

    def meta(self, latencies: list[RecordedTest]) -> dict[str, Any]:
        network = self.scenario.network
        end = self.bins * self.bin_ps
        return {
            "name": self.scenario.name,
            "seed": self.scenario.run.seed,
            "end_ps": end,
            "complete": True,
            "bin_ps": self.bin_ps,
            "recorded": "everything",
            "packet_hops": 0,
            "events": 0,
            "packets": {
                **dict.fromkeys(("ack", "nak", "pfc", "tcp_data", "tcp_ack"), 0),
                "data": self.packets * len(self.sends),
                "cnp": sum(self.counter(self.names[nic.host], "np_cnp_sent") for nic in self.lab.nics),
            },
            "line_rate_bps": {host: network.wires_of[host][0].rate for host in network.hosts},
            "faults": [],
            "drops": list(self._drops()),
            "conservation": {
                "checked_queues": 0,
                "data_packets": dict.fromkeys(("dropped", *_DISCARD_KEYS, "in_flight"), 0)
                | dict.fromkeys(("sent", "delivered"), self.packets * len(self.sends)),
                "ok": True,
            },
            "pauses": list(self._pauses(end)),
            "pause_storms": [],
            "queues": list(self._queues()),
            "cpu": [],
            "latency": [self._latency(one) for one in latencies],
            "bridge_cores": [
                {"bridge": self.names[host], "core": core, "interrupts": 0, "polls": 0, **shares}
                for host, cores in self.one.cores.items()
                for core, shares in cores.items()
            ],
            "veth": None,
            "lab": {
                "name": self.lab.name,
                "test": self.one.test.name,
                "tool": self.one.test.tool,
                "seconds": self.seconds,
                "missing": self.one.missing,
            },
        }

    def _latency(self, one: RecordedTest) -> dict[str, Any]:
        assert one.result.latency_us is not None
        least, typical, p99, most = (round(value * PS_PER_US) for value in one.result.latency_us)
        return {
            "item": one.test.name,
            "src": self.names[one.test.client],
            "dst": self.names[one.test.server],
            "iterations": one.result.iterations,
            "min_ps": least,
            "median_ps": typical,
            "p99_ps": p99,
            "max_ps": most,
        }

    def _drops(self) -> Iterator[dict[str, Any]]:
        for bridge in self.lab.bridges:
            node = self.names[bridge.host]
            for port in bridge.ports:
                peer = port.towards or port.interface
                for counter, queue, reason in (
                    ("rx_out_of_buffer", "rx-ring", "receive ring full"),
                    ("qdisc_drops", "qdisc", "queueing discipline"),
                ):
                    if packets := self.counter(node, counter, f"{node}:{peer}"):
                        where = {"where": f"{node}:{peer}/{queue}", "node": node, "peer": peer}
                        yield {**where, "reason": reason, "packets": packets, "bytes": 0}

    def _pauses(self, end: int) -> Iterator[dict[str, Any]]:
        for nic in self.lab.nics:
            node = self.names[nic.host]
            wires = self.scenario.network.wires_of.get(node)
            if not wires:  # models no host of the scenario
                continue
            wire = wires[0]
            peer = wire.b if wire.a == node else wire.a
            for priority in range(8):
                frames = self.counter(node, f"rx_prio{priority}_pause")
                paused = self.counter(node, f"rx_prio{priority}_pause_duration") * PS_PER_US
                if frames:
                    yield {
                        "port": f"{node}:{peer}",
                        "priority": priority,
                        "rx_frames": frames,
                        "transitions": self.counter(node, f"rx_prio{priority}_pause_transition"),
                        "paused_ps": paused,
                        "max_share_of_a_second": min(1.0, paused / end),
                        "last_pause_ps": end,
                    }

    def _queues(self) -> Iterator[dict[str, Any]]:
        for order, one in enumerate(self.entities.values()):
            if one["kind"] in ("qdisc", "rx-ring"):
                yield {
                    "queue": one["entity"],
                    "kind": one["kind"],
                    "node": one["node"],
                    "port": f"{one['node']}:{one['peer']}",
                    "peer": one["peer"],
                    "priority": 0,
                    "order": order,
                    **dict.fromkeys(("k_min_bytes", "k_max_bytes", "limit_bytes")),
                }

    def observations(self, latencies: list[RecordedTest]) -> str:
        """The CSV for `tailback fit`: a row for each figure."""
        bandwidth = (self.one.result.bandwidth_bps or 0.0) / BITS_PER_MIB
        resolution = self.one.result.resolution_bps / BITS_PER_MIB
        # What is printed as 0.00 is only known to be less than that.
        rows = [("perftest_bandwidth", bandwidth or None, "MiB/s", resolution)]
        rows += [
            ("write_latency", one.result.latency_us[1], "us", PRINT_RESOLUTION)
            for one in latencies[:1]
            if one.result.latency_us
        ]
        busiest = [shares["softirq"] for cores in self.one.cores.values() for shares in cores.values()]
        rows += [("softirq_share", 100 * max(busiest) or None, "%", PRINT_RESOLUTION)] if busiest else []
        lines = [
            f"{name},,{resolution:g},{unit},{resolution:g}"
            if value is None
            else f"{name},{value:g},,{unit},{max(value * PERFTEST_TOLERANCE, resolution):g}"
            for name, value, unit, resolution in rows
        ]
        return "\n".join(["metric,value,at_most,unit,tolerance", *lines, ""])
