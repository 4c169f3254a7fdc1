"""Lumina's own main programs judge a run of end points through a congestion point, in a namespace of its own:

    git clone https://github.com/lumina-test/lumina && python3 -m venv lv
    lv/bin/pip install dpkt pyyaml paramiko scp
    unshare -rn .venv/bin/python tests/lumina.py lumina lv/bin/python

Of 26 messages of 20 packets the n-th loses its n-th, up to the twentieth; in five more a packet is marked, in
the last one is damaged. Lumina gets what its testbed would leave: the mirrored packets, counters of the
switch and of both NICs, and its own kind of configuration. Prints what it says, and ends with status 1 where
that is an error. It is no part of `make test`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from commands import COMMAND
from live_lab import TWO, endpoint, pair_up

PACKETS, MTU, MARKED = 20, 1024, 5
MESSAGES = PACKETS + MARKED + 1
PORTS = {"requester": 1, "responder": 2, "requester-mirror": 3, "responder-mirror": 4}
IPS = {"requester": "10.84.0.1", "responder": "10.84.0.2"}


def measured(folder: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What the point told, the flow's row, and damaged packets that the receiver counted."""
    from tailback.results import Result

    file, given, clock = folder / "two.yaml", folder / "point.yaml", folder / "clock"
    text = TWO.format(duration="60s", rate="200Mbps", message=f"{PACKETS * MTU}B", messages=MESSAGES)
    file.write_text(text.replace("messages:", "depth: 1, messages:"))
    actions = [("drop", nth) for nth in range(PACKETS)] + [("mark", 4)] * MARKED + [("corrupt", 4)]
    events = [
        f"  - {{action: {action}, direction: forward, nth: {message * PACKETS + packet + 1}}}"
        for message, (action, packet) in enumerate(actions)
    ]
    given.write_text("\n".join(["rate: 200Mbps", "events:", *events, ""]))
    command = [*COMMAND, "point", "pa", "pb", str(given), "--capture", "--json", "--clock", str(clock)]
    leads = subprocess.Popen([*command, "--out", str(folder / "point")], stdout=subprocess.PIPE, text=True)
    err = endpoint(file, folder / "out", "h0=a0", "h1=b0", "--clock", str(clock)).communicate()[1]
    leads.send_signal(signal.SIGINT)
    told = json.loads(leads.communicate()[0])
    if err:
        raise SystemExit(err)
    result = Result.load(folder / "out")
    return told, result.flows.to_pylist()[0], result.meta["live"]["refused"]["rx_icrc_errors"]


def first_request(capture: Path) -> tuple[int, int]:
    """Queue pair and PSN of the first packet to the responder."""
    frame = capture.read_bytes()[24 + 16 :]
    bth = frame[14 + 20 + 8 :]
    return int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big")


def lay_out(folder: Path) -> Path:
    """The folder that Lumina's orchestrator would have filled, and its configuration."""
    told, flow, damaged = measured(folder)
    results = folder / "lumina"
    places = [results / "0" / f"{name}-result" for name in ("pcap", "rdma", "switch")]
    for place in places:
        place.mkdir(parents=True)
    mirrored = folder / "point" / "capture.pcap"
    (places[0] / "merge.pcap").symlink_to(mirrored)
    came = [one["rx_frames"] for one in told["directions"]]
    left = [one["tx_frames"] for one in told["directions"]]
    counter = {
        "ingress": {1: came[0], 2: came[1], 3: 0, 4: 0},
        "egress": {1: left[1], 2: left[0], 3: came[0], 4: came[1]},
    }
    (places[2] / "switch_state_snapshot.yml").write_text(yaml.safe_dump({"counter": counter}))
    qpn, psn = first_request(mirrored)
    pair = {"psn_snd": psn, "psn_rcv": 0, "qpn_snd": qpn, "qpn_rcv": qpn}
    pair |= {"ip_snd": IPS["requester"], "ip_rcv": IPS["responder"]}
    (places[2] / "switch_message_snapshot.yml").write_text(yaml.safe_dump([pair]))
    names = {
        "requester": ("packet_seq_err", "local_ack_timeout_err", "rp_cnp_handled"),
        "responder": ("out_of_sequence", "np_cnp_sent", "np_ecn_marked_roce_packets", "duplicate_request"),
    }
    for role, hardware in names.items():
        counters = {name: flow[name] for name in hardware}
        if role == "responder":
            counters["rx_icrc_encapsulated"] = damaged
        for when in ("start", "finish"):
            values = {name: value if when == "finish" else 0 for name, value in counters.items()}
            kinds = {"hw-counters": values, "port-counters": {}, "ethtool-counters": {}}
            (places[1] / f"{role}_counter_{when}.yml").write_text(yaml.safe_dump(kinds))
    return configuration(folder, results)


def configuration(folder: Path, results: Path) -> Path:
    login = {"workspace": "none", "control-ip": "none", "username": "none", "ssh-key-filepath": "none"}
    roce = {"dcqcn-rp-enable": True, "dcqcn-np-enable": True, "adaptive-retrans": False}
    roce |= {"slow-restart": False, "min-time-between-cnps": 4}

    def host(role: str) -> dict[str, Any]:
        nic = {"type": "CX5", "if-name": "none", "pci-addr": "none", "ib-device": "none", "ib-port": 1}
        at = {"switch-port": PORTS[role], "ip-list": [f"{IPS[role]}/24"]}
        return {**login, "nic": {**nic, **at}, "roce-parameters": roce}

    def mirror(role: str) -> dict[str, Any]:
        dump = {"dump-filename": "none", "snap-len": 128, "num-pkts": 0}
        return {**login, "pkt-dump-conf": dump, "nic": {"switch-port": PORTS[role], "rte-port-id": 0}}

    switch = {"sde-path": "none", "port-speed": "100G", "fec-type": "RS", "listen-port": 1}
    traffic = {"num-qps": 1, "rdma-verb": "write", "num-msgs-per-qp": MESSAGES, "mtu": MTU}
    conf = {
        "local-workspace": "none",
        "result-path": str(results),
        "aggregate-pcap-filename": "merge.pcap",
        "rewrite-udp-dst-port": 4791,
        "num-repeats": 1,
        "switch": {**login, **switch, "local-switch-config-path": "none"},
        **{role: host(role) for role in ("requester", "responder")},
        **{role: mirror(role) for role in ("requester-mirror", "responder-mirror")},
        "traffic": {**traffic, "message-size": PACKETS * MTU, "data-pkt-events": []},
    }
    file = folder / "lumina.yml"
    file.write_text(yaml.safe_dump(conf))
    return file


def main() -> None:
    checkout, python = sys.argv[1:]
    pair_up()
    with tempfile.TemporaryDirectory() as place:
        file = lay_out(Path(place))
        environment = {**os.environ, "PYTHONPATH": str(Path(checkout).resolve())}
        # The first, if asked, finds no CNPs, in no trace that has some: it compares with addresses that only
        # another of its checks sets.
        programs = (
            ["lumina.analyzer.main", "-f", str(file), "-c", "gbn"],
            ["lumina.e2e_test.test_gbn", "-f", str(file), "-v"],
            ["lumina.e2e_test.test_cnp", "-f", str(file), "-v"],
        )
        said = ""
        for program in programs:
            done = subprocess.run([python, "-m", *program], env=environment, capture_output=True, text=True)
            print(done.stdout, done.stderr)
            said += done.stdout + done.stderr + ("" if done.returncode == 0 else "ERROR")
    raise SystemExit("ERROR" in said)


if __name__ == "__main__":
    main()
