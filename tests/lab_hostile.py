"""States, setups and failures drawn by a seed: `unshare -rn python lab_hostile.py FOLDER SEED`.

Prints as JSON what was there before `lab apply` (or `point --kernel`) and after undo, and what was said.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from tailback import cli

PORTS = ("p0", "p1")
SAID = "uplink mtu 1;touch {canary}; $(touch {canary}) `touch {canary}` master x"


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def tailback(*arguments: str) -> tuple[int, str]:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as err:
        status = cli.main(list(arguments))
    return status, err.getvalue()


def state() -> dict[str, Any]:
    """All links, without what the kernel counts or makes by itself."""
    found: dict[str, Any] = {}
    for one in json.loads(run("ip", "-j", "-d", "addr", "show")):
        name = one["ifname"]
        qdiscs = [q for q in json.loads(run("tc", "-j", "qdisc", "show", "dev", name)) if q["handle"] != "0:"]
        found[name] = {
            "up": "UP" in one["flags"],
            "mtu": one["mtu"],
            "master": one.get("master"),
            "addresses": sorted(a["local"] for a in one["addr_info"] if a["scope"] != "link"),
            "qdiscs": [{k: v for k, v in q.items() if k != "refcnt"} for q in qdiscs],
            "alias": one.get("ifalias"),
        }
    return found


def world(draw: random.Random, canary: Path) -> None:
    for number, port in enumerate(PORTS):
        run("ip", "link", "add", port, "type", "veth", "peer", "name", f"e{number}")
    run("ip", "link", "add", "br-own", "type", "bridge")
    run("ip", "addr", "add", "10.1.1.1/24", "dev", "br-own")
    if draw.random() < 0.25:
        run("ip", "link", "add", "br-cp", "type", "bridge")
        run("ip", "addr", "add", "10.2.2.1/24", "dev", "br-cp")
    for name in (*PORTS, "e0", "e1"):
        run("ip", "link", "set", "dev", name, "alias", SAID.format(canary=canary)[:250])
        run("ip", "link", "set", "dev", name, "mtu", str(draw.choice([1400, 1500, 4200])))
        if draw.random() < 0.5:
            run("ip", "link", "set", "dev", name, "up")
        if draw.random() < 0.3:
            run("ip", "addr", "add", draw.choice(["10.9.0.1/24", "10.8.0.9/16"]), "dev", name)
        if draw.random() < 0.3:
            run("ip", "addr", "add", "fd00::9/64", "dev", name, "nodad")
    for port in PORTS:
        if draw.random() < 0.2:
            run("ip", "link", "set", "dev", port, "master", "br-own")
        kind = draw.choice(["", "", "", "tbf rate 1gbit burst 20kb limit 2mb", "pfifo limit 77"])
        if kind:
            run("tc", "qdisc", "add", "dev", port, "root", *kind.split())
        if draw.random() < 0.2:
            run("tc", "qdisc", "add", "dev", port, "clsact")


def lab(draw: random.Random, folder: Path) -> str:
    """A lab; a step of it may fail, since an interface is missing or a command of its own fails."""
    ports: list[dict[str, Any]] = [{"interface": port} for port in PORTS]
    tbf = {"kind": "tbf", "rate": "1Gbps", "burst": "20KB", "limit": "2MB"}
    for port in ports:
        if qdisc := draw.choice([None, {"kind": "pfifo", "limit": 500}, tbf]):
            port["qdisc"] = qdisc
    if draw.random() < 0.3:
        ports.append({"interface": "missing"})
    nics = [{"host": "hv", "interface": "e0", "address": "10.9.0.1/24", "mtu": draw.choice([1000, 4200])}]
    if draw.random() < 0.3:
        nics.append({"host": "hv", "interface": "gone"})
    made, left = folder / "made", folder / "left"
    commands = [{"host": "hv", "do": f"touch {made}", "undo": f"rm {made}"}]
    if draw.random() < 0.3:
        when = draw.choice(["first", "after-bridges"])
        commands.append({"host": "hv", "do": "false", "undo": f"touch {left}", "when": when})
    bridge = {"host": "hv", "name": "br-cp", "mtu": draw.choice([1000, 1500, 4200]), "ports": ports}
    data = {"name": "drawn", "scenario": "poor-mans-cp", "hosts": {"hv": {"at": "local", "model": "br0"}}}
    file = folder / "lab.yaml"
    file.write_text(yaml.safe_dump({**data, "commands": commands, "bridges": [bridge], "nics": nics}))
    return str(file)


def main() -> None:
    folder, draw = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    world(draw, folder / "canary")
    before = state()
    out = folder / "out"
    if draw.random() < 0.25:
        ecn = "ecn={k_min: 20KB, k_max: 60KB, p_max: 0.1}"
        sets = ["--set", "rate=40Mbps", "--set", "buffer=1MB", "--set", ecn]
        done = tailback("point", *PORTS, "--kernel", *sets, "--duration", "50ms", "--out", str(out), "-q")
        undone = (0, done[1])
    else:
        file = lab(draw, folder)
        done = tailback("lab", "apply", file, "--out", str(out), "-q")
        between = state()
        if (out / "undo.jsonl").exists():
            undone = tailback("lab", "undo", file, str(out), "-q")
        else:
            assert between == before, "nothing is said to have been done"
            undone = (0, "")
    told = {"before": before, "after": state(), "done": done, "undone": undone}
    told["files"] = sorted(one.name for one in folder.iterdir())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
