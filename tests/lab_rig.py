"""A lab on one machine, in a network namespace of its own: `unshare -rn python lab_rig.py FOLDER`, JSON out.

Two veth pairs; p0 and p1 are to be ports of a bridge, e0 and e1 what is behind them. perftest, ethtool and
rdma are scripts, as there is no hardware; ip, tc and the kernel are what they are.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tailback import cli

LAB = """
name: one-machine
scenario: poor-mans-cp
hosts:
  hv: {at: local, model: br0}
  a: {at: local, model: h0}
  b: {at: local, model: h1}
bridges:
  - host: hv
    name: br-cp
    mtu: 4200
    ports:
      - {interface: p0, towards: h0, qdisc: {kind: tbf, rate: 1Gbps, burst: 20KB, limit: 2MB}}
      - {interface: p1, towards: h1, qdisc: {kind: pfifo, limit: 500}}
nics:
  - {host: a, interface: e0, device: fake0, address: 10.9.0.1/24, mtu: 4200}
  - {host: b, interface: e1, device: fake0, address: 10.9.0.2/24, mtu: 4200}
tests:
  - {name: bandwidth, tool: ib_write_bw, server: a, client: b, seconds: 3}
  - {name: latency, tool: ib_write_lat, server: a, client: b, iterations: 5}
"""
BANDWIDTH = """#!/bin/sh
case "$*" in
  *10.9.0.1) sleep 2.5; for word in $*; do case $word in --out_json_file=*) file=${word#*=};; esac; done
    echo '{"test_info": {"Device": "fake0"}, "results": {"MsgSize": 65536, "n_iterations": 30000,
    "BW_peak": 0.0, "BW_average": 1000.00, "MsgRate": 0.016}}' > $file;;
  *) sleep 30;;
esac
"""
LATENCY = """#!/bin/sh
case "$*" in
  *10.9.0.1) for word in $*; do case $word in --out_json_file=*) file=${word#*=};; esac; done
    echo '{"results": {"MsgSize": 2, "n_iterations": 5, "t_min": 9.0, "t_max": 20.0, "t_typical": 10.4,
    "t_avg": 11.0, "99%_percentile": 19.0}}' > $file;;
  *) sleep 30;;
esac
"""
RDMA = """#!/bin/sh
count=$(cat $STATE/looks 2> /dev/null || echo 0); echo $((count + 1)) > $STATE/looks
echo '[{"ifindex":1,"ifname":"fake0","port":1,"np_cnp_sent":'$((count * 10))',"rp_cnp_handled":5}]'
"""
STATE = "ip -o -d link; tc qdisc show; ip -o addr show dev e0 scope global"


def lab(*arguments: str) -> tuple[int, str, str]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = cli.main(["lab", *arguments])
    return status, out.getvalue(), err.getvalue()


def state() -> list[str]:
    """Links, disciplines and addresses, without what counts up by itself."""
    lines = subprocess.run(
        ["sh", "-c", STATE], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    # A device that was up once has noqueue where it had noop.
    kept = [re.sub(r" qdisc no\w+", "", line) for line in lines if not line.startswith("qdisc no")]
    return sorted(" ".join(line.split(" ", 1)[1].split()) if line[:1].isdigit() else line for line in kept)


def main() -> None:
    folder = Path(sys.argv[1])
    for number in (0, 1):
        ends = (f"p{number}", f"e{number}")
        subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
        for name in ends:
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    tools = folder / "tools"
    tools.mkdir()
    for name, text in {"ib_write_bw": BANDWIDTH, "ib_write_lat": LATENCY, "rdma": RDMA}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    os.environ["STATE"] = str(folder)
    file, applied = str(folder / "lab.yaml"), str(folder / "applied")
    (folder / "lab.yaml").write_text(LAB)
    told: dict[str, Any] = {"at_first": state(), "plan": lab("plan", file)[1]}
    told["verify_before"] = lab("verify", file)
    told["apply"] = lab("apply", file, "--out", applied)
    told["again"] = lab("apply", file, "--out", applied)
    told["between"] = state()
    told["verify"] = lab("verify", file)
    told["run"] = lab("run", file, "--out", str(folder / "recorded"))
    told["collect"] = lab("collect", file, str(folder / "recorded"), "--out", str(folder / "measured"))
    told["undo"] = lab("undo", file, applied)
    told["at_last"] = state()
    subprocess.run(["ip", "link", "del", "p1"], check=True)
    told["fails"] = lab("apply", file, "--out", str(folder / "broken"))
    told["undo_broken"] = lab("undo", file, str(folder / "broken"))
    told["links"] = [line.split()[0] for line in state() if line.startswith(("p0", "br-cp"))]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
