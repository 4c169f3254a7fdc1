"""Losses of chosen packets, in the manner of Lumina (Yu et al., NSDI 2023): soft-RoCE in a virtual machine at
one end, `tailback endpoint` at the other, and `tailback point` between them, which drops, marks, damages,
delays or reorders one packet of a message.

`make test-vm` runs it; it is no part of `make test`. One boot serves all. What flows stays in a network
namespace that is made for it.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machine import Machine, There
from tailback import Result, captured
from tailback.lab.model import LabHost
from tailback.point import kernel
from tailback.point.settings import PointSettings

ENDPOINT_AT, MACHINE_AT = "10.86.0.2", "10.86.0.1"
"""Of the exchange of perftest, on a tap of its own."""
THERE = There("tailback-vm-events", ENDPOINT_AT, MACHINE_AT, veth=True)
PACKETS, MTU = 20, 1024
"""Of a message, each of which is answered before the next begins: so each is an experiment by itself."""
OTHERS = ("mark", "corrupt", "delay", "reorder")
MESSAGES = PACKETS + len(OTHERS) + 1
"""Of the n-th the n-th packet is dropped, up to the twentieth; then the others; of the last nothing."""
OTHERS_PACKET = 5
CNP_INTERVAL_US = 500
SCENARIO = f"""
name: events
run: {{duration: 60s}}
topology: {{kind: point-to-point, link: {{rate: 200Mbps, delay: 10us}}}}
host:
  mtu: {MTU}B
  congestion: dcqcn
  dcqcn: {{min_time_between_cnps: {CNP_INTERVAL_US}}}
  transport: {{ack_timeout: 500ms, adaptive_timeout: null, slow_restart: never}}
traffic:
  - {{kind: write, from: h0, to: h1, message: {PACKETS * MTU}B, depth: 1, messages: {MESSAGES}}}
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with THERE.booted(tmp_path_factory.mktemp("vm")) as made:
        yield made


@contextmanager
def between(folder: Path, settings: str) -> Iterator[None]:
    """A congestion point, and a capture of what the machine sends and gets."""
    file = folder / "point.yaml"
    file.write_text(settings)
    point = THERE.tailback("point", "p0", "rdma0", file, "--out", folder / "point", "--quiet")
    tap = THERE.start(
        "tcpdump", "-i", "rdma0", "-w", folder / "tap.pcap", "--immediate-mode", "--time-stamp-precision=nano"
    )
    time.sleep(3.0)
    try:
        yield
        time.sleep(1.0)  # what the capture has yet to read
    finally:
        for process in (tap, point):
            process.send_signal(signal.SIGINT)
            print(process.communicate(timeout=60)[0])


def events(direction: str) -> str:
    """Of all messages, each event at a packet of its own message."""
    at = [(PACKETS * (nth - 1) + nth, "drop") for nth in range(1, PACKETS + 1)]
    at += [(PACKETS * (PACKETS + n) + OTHERS_PACKET, action) for n, action in enumerate(OTHERS)]
    more = {"delay": ", delay: 5ms", "reorder": ", packets: 3"}
    rows = [
        f"  - {{action: {action}, nth: {nth}, direction: {direction}{more.get(action, '')}}}"
        for nth, action in at
    ]
    return "\n".join(["rate: 200Mbps", "events:", *rows, ""])


def endpoint(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return THERE.endpoint(folder, SCENARIO, *arguments)


def ib_write_bw(*more: str) -> str:
    return " ".join(
        [f"ib_write_bw -d rxe0 -s {PACKETS * MTU} -n {MESSAGES} -t 1 -Q 1 -u 17 -x 1 -m {MTU}", *more]
    )


def rxe_writes(machine: Machine, folder: Path, settings: str) -> Result:
    """perftest in the machine writes to an end point."""
    with between(folder, settings):
        ours = endpoint(folder, "h1=e0", "--perftest", ENDPOINT_AT, "--capture", "h1")
        machine.start(
            f"for t in $(seq 20); do {ib_write_bw('--tclass=2', ENDPOINT_AT)} && break; sleep 1; done"
        )
        status, output = machine.end()
        told, _ = ours.communicate(timeout=120)
    print(output, told)
    assert (status, ours.returncode) == (0, 0)
    return Result.load(folder / "run")


def rxe_is_written_to(machine: Machine, folder: Path, settings: str) -> Result:
    with between(folder, settings):
        machine.start(ib_write_bw())
        ours = endpoint(folder, "h0=e0", "--perftest", MACHINE_AT, "--capture", "h0")
        told, _ = ours.communicate(timeout=120)
        status, output = machine.end()
    print(output, told)
    assert (status, ours.returncode) == (0, 0)
    return Result.load(folder / "run")


def requests(file: Path) -> dict[str, Any]:
    """What a capture tells of the one queue pair that writes, its recoveries by the number of the packet."""
    found = captured.analyze(file).data
    way = max(found["connections"], key=lambda one: one["new_payload_bytes"])
    rows = [one for one in found["listed"] if one["way"] == way["way"]]
    assert all(one["icrc_bad"] <= 1 for one in found["interfaces"])
    return {"way": way, "rows": rows}


def listed(title: str, responder: dict[str, Any], requester: dict[str, Any]) -> None:
    """Prints a row a recovery: the NAK as it was seen where it was made, what was sent again likewise."""
    print(f"{title}\n packet  trigger  gap to NAK  NAK to retransmission  silent  sent again, us")
    first = requester["rows"][0]["psn"]
    made = {row["psn"]: row for row in responder["rows"]}
    columns: list[list[float]] = [[], [], []]
    for row in requester["rows"]:
        seen, number = made.get(row["psn"], {}), (row["psn"] - first) % (1 << 24)
        late = row["trigger"] == "timeout"
        spans = (
            (seen.get("gap_at_ps"), seen.get("nak_at_ps")),
            (row["nak_at_ps"], row["sent_at_ps"]),
            (0, row["silent_ps"]) if late else (None, None),
        )
        texts = [f"{number // PACKETS + 1}.{number % PACKETS + 1}", row["trigger"]]
        for column, (since, until) in zip(columns, spans, strict=True):
            known = since is not None and until is not None
            column += [(until - since) / 1e6] if known else []
            texts.append(f"{column[-1]:,.0f}" if known else "-")
        print("".join(f"{text:>12}" for text in [*texts, str(row["packets"])]))
    for name, column in zip(("gap to NAK", "NAK to retransmission", "timeout"), columns, strict=True):
        spread = (min(column), statistics.median(column), max(column))
        print(
            f" {name}: {', '.join(f'{one:,.0f}' for one in spread)} us (least, median, most of {len(column)})"
        )


def check(found: dict[str, Any], happened: int) -> None:
    """All events came to pass; what was lost is sent again: the last packet of a message after a timeout."""
    assert happened == PACKETS + len(OTHERS)
    rows = found["rows"]
    first = rows[0]["psn"]

    def triggers(message: int, packet: int) -> set[str]:
        """Of the recoveries that sent it again."""
        at = PACKETS * (message - 1) + packet - 1
        begins = [((row["psn"] - first) % (1 << 24), row) for row in rows]
        return {row["trigger"] for begin, row in begins if begin <= at < begin + row["packets"]}

    for nth in range(1, PACKETS + 1):
        assert ("timeout" if nth == PACKETS else "nak") in triggers(nth, nth), nth
    # What is damaged is dropped; what is late or overtaken is asked for: nothing out of order is kept.
    for message, action in enumerate(OTHERS, PACKETS + 1):
        assert triggers(message, OTHERS_PACKET) == (set() if action == "mark" else {"nak"}), action
    assert triggers(MESSAGES, PACKETS) == set()
    assert found["way"]["selective"] == 0


def happened(folder: Path) -> int:
    return len(json.loads((folder / "point" / "events.json").read_text())["happened"])


def test_soft_roce_sends_again_what_is_lost_on_the_way_to_an_end_point(
    machine: Machine, tmp_path: Path
) -> None:
    result = rxe_writes(machine, tmp_path, events("back"))
    responder, requester = requests(tmp_path / "run" / "capture.pcap"), requests(tmp_path / "tap.pcap")
    listed("soft-RoCE writes to an end point", responder, requester)
    check(requester, happened(tmp_path))
    flow = result.flows.to_pylist()[0]
    assert flow["bytes_delivered"] == MESSAGES * PACKETS * MTU
    assert (flow["np_ecn_marked_roce_packets"], flow["np_cnp_sent"]) == (1, 1)


def test_an_end_point_sends_again_what_is_lost_on_the_way_to_soft_roce(
    machine: Machine, tmp_path: Path
) -> None:
    result = rxe_is_written_to(machine, tmp_path, events("forward"))
    responder, requester = requests(tmp_path / "tap.pcap"), requests(tmp_path / "run" / "capture.pcap")
    listed("an end point writes to soft-RoCE", responder, requester)
    check(requester, happened(tmp_path))
    flow = result.flows.to_pylist()[0]
    assert (flow["state"], flow["messages_completed"]) == ("done", MESSAGES)


def test_cnps_keep_their_interval(machine: Machine, tmp_path: Path) -> None:
    """What soft-RoCE sends comes faster than the congestion point's rate, and is marked. It ignores CNPs."""
    settings = "rate: 20Mbps\necn: {k_min: 0B, k_max: 0B}\n"
    flow = rxe_writes(machine, tmp_path, settings).flows.to_pylist()[0]
    gaps = captured.analyze(tmp_path / "run" / "capture.pcap").data["cnp_gaps"]
    print({key: flow[key] for key in ("np_ecn_marked_roce_packets", "np_cnp_sent")}, gaps)
    assert flow["bytes_delivered"] == MESSAGES * PACKETS * MTU
    assert flow["np_ecn_marked_roce_packets"] > MESSAGES * PACKETS / 2
    assert flow["np_cnp_sent"] == gaps["count"] + 1 > 50
    assert gaps["least_ps"] >= CNP_INTERVAL_US * 1_000_000


def test_the_kernel_is_the_congestion_point(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tailback point --kernel`, its lines over the serial line: end points on both taps, RED between."""

    def ask(_host: LabHost, line: str, _patience_s: float = 0.0) -> tuple[int, str, str]:
        machine.start(line)
        status, output = machine.end()
        return status, output, output

    monkeypatch.setattr(kernel, "ask", ask)
    for line in ("rdma link delete rxe0", "ip addr flush dev eth0", "ip addr flush dev eth1"):
        machine.run(line)
    machine.run("ip link set eth1 mtu 4300")
    THERE.start("ip", "addr", "flush", "dev", "mgmt0").communicate()
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO.replace(f"depth: 1, messages: {MESSAGES}", "depth: 4"))
    slow = ["run.duration=6s", "host.dcqcn.rpg_ai_rate=1", "host.dcqcn.rpg_hai_rate=1"]
    sets = [part for setting in slow for part in ("--set", setting)]
    where = ("h0=rdma0", "h1=mgmt0", *sets, "--out", tmp_path / "run", "--no-report")
    begun: list[subprocess.Popen[str]] = []

    def look(told: dict[str, Any]) -> None:
        """The first tells that the bridge is there: what is sent before that is lost."""
        looks.append(told)
        if not begun:
            begun.append(THERE.tailback("endpoint", scenario, *where))

    ecn = {"k_min": "20KB", "k_max": "60KB", "p_max": 0.1}
    settings = PointSettings.model_validate({"rate": "40Mbps", "buffer": "1MB", "ecn": ecn})
    looks: list[Any] = []
    told = kernel.run("eth0", "eth1", settings, int(20e12), look)
    print(begun[0].communicate(timeout=120)[0], told["directions"])
    assert begun[0].returncode == 0
    assert told["ended_by"] is None
    assert machine.run("ip -o link show type bridge").strip() == ""
    assert "tbf" not in machine.run("tc qdisc show")
    flow = Result.load(tmp_path / "run").flows.to_pylist()[0]
    forward = told["directions"][0]
    assert 0 < flow["np_ecn_marked_roce_packets"] <= forward["marked"]
    assert flow["rp_cnp_handled"] > 0
    assert flow["bytes_delivered"] < forward["tx_bytes"]
    assert forward["tx_bytes"] == sum(row["tx_bytes"] for row in told["bins"][0])
    assert len(looks) > 10
