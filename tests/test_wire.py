"""Frames of every kind, read by two programs that are not ours: Wireshark's dissectors and scapy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RXE = ROOT / "crates" / "proto" / "tests" / "data" / "rxe_write.pcap"
CNP = 0x81

Frames = tuple[Path, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    """A capture, and what its frames hold."""
    capture = tmp_path_factory.mktemp("wire") / "frames.pcap"
    cargo = [os.environ.get("CARGO", "cargo"), "run", "--quiet", "--locked", "--package", "tailback-proto"]
    command = [*cargo, "--example", "frames", "--", str(capture)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return capture, [json.loads(line) for line in done.stdout.splitlines()]


# Wireshark's name of each field.
TSHARK = {
    "dscp": "ip.dsfield.dscp",
    "ecn": "ip.dsfield.ecn",
    "source_port": "udp.srcport",
    "opcode": "infiniband.bth.opcode",
    "solicited_event": "infiniband.bth.se",
    "mig_req": "infiniband.bth.m",
    "pad_cnt": "infiniband.bth.padcnt",
    "t_ver": "infiniband.bth.tver",
    "p_key": "infiniband.bth.p_key",
    "dest_qp": "infiniband.bth.destqp",
    "ack_req": "infiniband.bth.a",
    "psn": "infiniband.bth.psn",
    "icrc": "infiniband.invariant.crc",
    "pcp": "vlan.priority",
    "vid": "vlan.id",
    "va": "infiniband.reth.va",
    "r_key": "infiniband.reth.r_key",
    "dma_len": "infiniband.reth.dmalen",
    "immediate": "infiniband.immdt",
    "syndrome": "infiniband.aeth.syndrome",
    "msn": "infiniband.aeth.msn",
    "orig_rem_dt": "infiniband.atomicacketh.origremdt",
    "swap_dt": "infiniband.atomiceth.swapdt",
    "cmp_dt": "infiniband.atomiceth.cmpdt",
}
IPV6 = {"dscp": "ipv6.tclass.dscp", "ecn": "ipv6.tclass.ecn"}
PFC = {
    "class_enable_vector": "macc.cbfc.enbv",
    **{f"time {priority}": f"macc.cbfc.pause_time.c{priority}" for priority in range(8)},
}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark")
def test_wireshark_reads_what_was_written(frames: Frames) -> None:
    capture, expected = frames
    names = [*TSHARK.values(), *IPV6.values(), *PFC.values(), "infiniband.bth", "_ws.malformed"]
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    # It takes what a SEND holds for RPC over RDMA, and finds one of three bytes malformed.
    command += ["--disable-protocol", "rpcordma"]
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected)
    for number, (line, fields) in enumerate(zip(lines, expected, strict=True)):
        shown = {name: value for name, value in zip(names, line.split("|"), strict=True) if value}
        assert "_ws.malformed" not in shown, (number, fields)
        if "time" in fields:
            times = {f"time {priority}": quanta for priority, quanta in enumerate(fields["time"])}
            wanted = {PFC[name]: value for name, value in {**fields, **times}.items() if name != "time"}
        else:
            table = TSHARK if "ip.dsfield.dscp" in shown else {**TSHARK, **IPV6}
            wanted = {table[name]: value for name, value in fields.items() if name in table}
            assert "infiniband.bth" in shown, number
            if fields["opcode"] == CNP:
                # Version 4 knows none, and looks no further than its BTH.
                shown[TSHARK["icrc"]] = str(wanted[TSHARK["icrc"]])
        seen = {name: number_of(name, shown[name]) for name in wanted if name in shown}
        assert seen == wanted, (number, fields)


def number_of(name: str, text: str) -> int:
    """A field as tshark prints it: decimal or with 0x, and immediate data as bytes."""
    if name == TSHARK["immediate"]:
        return int(text.replace(":", ""), 16)
    return int({"True": "1", "False": "0"}.get(text, text), 0)


def test_scapy_reads_what_was_written_and_makes_the_same_icrc(frames: Frames) -> None:
    capture, expected = frames
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.utils import rdpcap

    packets = rdpcap(str(capture))
    assert len(packets) == len(expected)
    checked = 0
    for packet, fields in zip(packets, expected, strict=True):
        if "opcode" not in fields:
            continue
        bth = packet[roce.BTH]
        traffic_class = packet[IP].tos if IP in packet else packet[IPv6].tc
        seen = {
            "dscp": traffic_class >> 2,
            "ecn": traffic_class & 3,
            "opcode": bth.opcode,
            "solicited_event": bth.solicited,
            "mig_req": bth.migreq,
            "pad_cnt": bth.padcount,
            "t_ver": bth.version,
            "p_key": bth.pkey,
            "fecn": bth.fecn,
            "becn": bth.becn,
            "dest_qp": bth.dqpn,
            "ack_req": bth.ackreq,
            "psn": bth.psn,
        }
        assert bth.resv6 == bth.resv7 == 0
        assert seen == {name: fields[name] for name in seen}
        if roce.AETH in packet:
            aeth = packet[roce.AETH]
            assert (aeth.syndrome, aeth.msn) == (fields["syndrome"], fields["msn"])
        if fields["opcode"] == CNP:
            padding = packet[roce.CNPPadding]
            assert padding.reserved1 == padding.reserved2 == 0
        assert made_again(packet) == fields["icrc"] == bth.icrc
        checked += 1
    assert checked > 400


def test_scapy_makes_the_icrc_of_linux_again() -> None:
    """The check of ICRCs, checked: Linux made these."""
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.utils import rdpcap

    packets = rdpcap(str(RXE))
    assert len(packets) == 55
    assert all(made_again(packet) == packet[roce.BTH].icrc for packet in packets)


def made_again(packet: Any) -> int:
    """The ICRC that scapy gives a packet."""
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    from scapy.packet import Padding

    copy = packet.copy()
    if Padding in copy:  # Ethernet's, which scapy would take for the packet's
        copy[Padding].underlayer.remove_payload()
    copy[BTH].icrc = None
    icrc: int = Ether(bytes(copy))[BTH].icrc
    return icrc
