"""End points in a network namespace of its own: `unshare -rn python live_lab.py CASE`, JSON out.

Two veth pairs: hosts have a0 and b0, a congestion point between them pa and pb; without one, a0 and pa are
the two ends. Nobody has an address, and nothing outside of the namespace is touched.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from commands import COMMAND
from point_lab import end, write

FIRST_QP = 0x100
"""Number of the first queue pair of a host."""
TWO = """
name: two
run: {{duration: {duration}}}
topology: {{kind: point-to-point, link: {{rate: {rate}, delay: 10us}}}}
host: {{transport: {{ack_timeout: 20ms, adaptive_timeout: null, slow_restart: never}}}}
traffic:
  - {{kind: write, from: h0, to: h1, message: {message}, messages: {messages}}}
"""


def endpoint(scenario: Path, out: Path, *placed: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "endpoint", str(scenario), *placed, "--out", str(out), "--no-report", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(out: Path) -> dict[str, Any]:
    """What an end point's folder says."""
    from tailback.results import Result

    result = Result.load(out)
    flow = result.flows.to_pylist()[0]
    return {
        "completed": flow["messages_completed"],
        "delivered": flow["bytes_delivered"],
        "naks": flow["packet_seq_err"],
        "timeouts": flow["local_ack_timeout_err"],
        "retransmitted": flow["packets_retransmitted"],
        "wrong": result.meta["live"]["wrong_messages"],
        "checked": result.meta["live"]["checked_messages"],
        "refused": result.meta["live"]["refused"],
    }


def drops(folder: Path) -> dict[str, Any]:
    """Twenty queue pairs send two messages of ten packets; of each a packet is dropped, in turn."""
    from tailback.results import Result

    scenario, given, out = folder / "two.yaml", folder / "point.yaml", folder / "out"
    text = TWO.format(duration="3s", rate="100Mbps", message="10KiB", messages=2)
    scenario.write_text(text.replace("messages: 2", "messages: 2, qps: 20"))
    # What h1 has for each is numbered from the first on, as at h0.
    events = [f"  - {{action: drop, qp: {FIRST_QP + nth - 1}, nth: {nth}}}" for nth in range(1, 21)]
    given.write_text("\n".join(["rate: 100Mbps", "events:", *events, ""]))
    command = [
        *COMMAND,
        "point",
        "pa",
        "pb",
        str(given),
        "--out",
        str(folder / "point"),
        "--json",
        "--capture",
    ]
    point = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    through(point)
    ended = endpoint(scenario, out, "h0=a0", "h1=b0", "--capture", "h0")
    err = ended.communicate(timeout=60)[1]
    point.send_signal(signal.SIGINT)
    told = json.loads(point.communicate(timeout=60)[0])
    if ended.returncode:
        raise SystemExit(err)
    result = Result.load(out)
    keys = ("messages_completed", "packet_seq_err", "local_ack_timeout_err", "packets_retransmitted")
    rows = [{key: flow[key] for key in keys} for flow in result.flows.to_pylist()]
    command = [*COMMAND, "analyze", str(out / "capture.pcap"), "--json"]
    seen = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        "rows": rows,
        "wrong": outcome(out)["wrong"],
        "events": len(told["happened"]),
        "recoveries": [(one["trigger"], one["manner"], one["silent_ps"]) for one in seen["listed"]],
        "broken": [seen["interfaces"][0][name] for name in ("icrc_bad",)],
        "mirrored": mirrored(folder / "point" / "capture.pcap"),
    }


def mirrored(file: Path) -> dict[str, Any]:
    """What a congestion point's capture says in Lumina's manner, and its count of frames."""
    data, at, frames = file.read_bytes(), 24, list[bytes]()
    while at < len(data):
        kept = int.from_bytes(data[at + 8 : at + 12], "little")
        frames.append(data[at + 16 : at + 16 + kept])
        at += 16 + kept
    roce = [frame for frame in frames if frame[12:14] == b"\x08\x00"]
    times = [int.from_bytes(frame[:6], "big") for frame in roce]
    return {
        "frames": len(frames),
        "numbers": [int.from_bytes(frame[6:12], "big") for frame in frames]
        == list(range(1, len(frames) + 1)),
        "back_in_time": sum(late < early for early, late in itertools.pairwise(times)),
        "dropped": sum(frame[22] == 1 for frame in roce),
    }


def through(point: subprocess.Popen[str]) -> None:
    """Waits until a probe comes through."""
    a, b = end("a0"), end("b0")
    b.settimeout(0.1)
    while point.poll() is None:
        a.send(b"\x02" * 12 + b"\x88\xb5" + bytes(46))
        try:
            if b.recv(65_536)[12:14] == b"\x88\xb5":
                return
        except TimeoutError:
            pass


def paused(folder: Path) -> dict[str, Any]:
    """Three senders at one end of a congestion point that pauses them."""
    from tailback.results import Result

    scenario, given, out = folder / "incast.yaml", folder / "point.yaml", folder / "out"
    text = TWO.format(duration="1s", rate="100Mbps", message="64KiB", messages="null")
    text = text.replace("point-to-point", "star, hosts: 4").replace(
        "from: h0, to: h1", "from: h0..h2, to: h3"
    )
    # On a busy machine hosts come to a fraction of their rates, and a pause takes as long as the point waits
    # for a core: 8 MB are 0.2 s of all hosts, which unpaused would send 38 MB. No timer fires meanwhile.
    scenario.write_text(text.replace("ack_timeout: 20ms", "ack_timeout: 500ms"))
    given.write_text("rate: 20Mbps\nbuffer: 8MB\npfc: {xoff: 20KB, xon: 10KB, priority: 3}\n")
    command = [*COMMAND, "point", "pa", "pb", str(given), "--out", str(folder / "point"), "--json", "--quiet"]
    point = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    through(point)
    ended = endpoint(scenario, out, "h0=a0", "h1=a0", "h2=a0", "h3=b0")
    err = ended.communicate(timeout=60)[1]
    point.send_signal(signal.SIGINT)
    counters = json.loads(point.communicate(timeout=60)[0])["directions"][0]
    if ended.returncode:
        raise SystemExit(err)
    result = Result.load(out)
    return {
        "dropped": counters["dropped_full"] + counters["dropped_unread"],
        "frames": counters["pause_frames_sent"],
        "paused_ps": [pause["paused_ps"] for pause in result.meta["pauses"]],
        "jain": result.summary["fairness"]["jain"],
        "wrong": result.meta["live"]["wrong_messages"],
    }


SHARED = """
name: shared
run: {duration: 1s}
topology: {kind: star, hosts: 5, link: {rate: 500Mbps, delay: 10us}}
switch: {shared: 4MiB, ecn: {k_min: 20KB, k_max: 80KB, p_max: 0.1}}
traffic:
  - {kind: write, from: h0..h3, to: h4, message: 64KiB}
"""
LOSSY = """
name: lossy
run: {duration: 1s}
topology: {kind: star, hosts: 2, link: {rate: 500Mbps, delay: 10us, loss: 0.001}}
traffic:
  - {kind: write, from: h0, to: h1, message: 64KiB}
"""


def on_one_clock(folder: Path, scenario: str, point: str, *ends: list[str]) -> dict[str, Any]:
    """A congestion point that leads, and a process for each of `ends`. The last has the one that is written
    to."""
    from tailback.results import Result

    file, given, clock = folder / "scenario.yaml", folder / "point.yaml", str(folder / "clock")
    file.write_text(scenario)
    given.write_text(point)
    command = [*COMMAND, "point", "pa", "pb", str(given), "--clock", f"{clock}:{len(ends)}"]
    command += ["--out", str(folder / "point"), "--json", "--quiet"]
    leads = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    outs = [folder / f"out{number}" for number in range(len(ends))]
    follow = [endpoint(file, out, *placed, "--clock", clock) for out, placed in zip(outs, ends, strict=True)]
    for one in follow:
        err = one.communicate(timeout=120)[1]
        if one.returncode:
            raise SystemExit(err)
    leads.send_signal(signal.SIGINT)
    told = json.loads(leads.communicate(timeout=60)[0])
    results = [Result.load(out) for out in outs]
    flows = results[-1].flows
    return {
        "goodput_bps": results[-1].summary["goodput"]["whole_run_bps"],
        "jain": results[-1].summary["fairness"]["jain"],
        "marked": sum(flows.column("np_ecn_marked_roce_packets").to_pylist()),
        "cnps": sum(flows.column("np_cnp_sent").to_pylist()),
        "queue_bytes": told["directions"][0]["queued_byte_ps"] / told["elapsed_ps"],
        "dropped": told["directions"][0]["dropped_full"],
        "lost": sum(one["dropped_loss"] for one in told["directions"]),
        "retransmitted": sum(results[0].flows.column("packets_retransmitted").to_pylist()),
        "wrong": sum(result.meta["live"]["wrong_messages"] for result in results),
        "left": (folder / "clock").exists(),
    }


def shared(folder: Path) -> dict[str, Any]:
    """Four into one: senders, receiver and congestion point are three processes."""
    point = "rate: 500Mbps\ndelay: 10us\nbuffer: 4MB\necn: {k_min: 20KB, k_max: 80KB, p_max: 0.1}\n"
    return on_one_clock(folder, SHARED, point, [f"h{number}=a0" for number in range(4)], ["h4=b0"])


def lossy(folder: Path) -> dict[str, Any]:
    """The point is the first of two links that lose; what the second loses, hosts do."""
    return on_one_clock(
        folder, LOSSY, "rate: 500Mbps\ndelay: 10us\nbuffer: 4MB\nloss: 0.001\n", ["h0=a0", "h1=b0"]
    )


def led_away(folder: Path) -> dict[str, Any]:
    """The congestion point is killed while an end point goes by its clock; its file is used again."""
    file, clock = folder / "scenario.yaml", folder / "clock"
    file.write_text(SHARED.replace("1s", "60s"))
    command = [*COMMAND, "point", "pa", "pb", "--clock", str(clock), "--out"]
    leads = subprocess.Popen([*command, str(folder / "point")], stderr=subprocess.PIPE)
    ended = endpoint(file, folder / "out", "h0=a0", "h4=b0", "--clock", str(clock))
    before = received("pa")
    while received("pa") < before + 20:
        time.sleep(0.1)
    leads.kill()
    leads.communicate()
    err = ended.communicate(timeout=60)[1]
    left = clock.exists()
    again = [*command, str(folder / "again"), "--duration", "10ms"]
    return {
        "status": ended.returncode,
        "err": err,
        "left": left,
        "again": subprocess.run(again, capture_output=True, check=False).returncode,
        "left_again": clock.exists(),
    }


def apart(folder: Path) -> dict[str, Any]:
    """Two processes with a host each."""
    scenario = folder / "two.yaml"
    scenario.write_text(TWO.format(duration="3s", rate="200Mbps", message="64KiB", messages=40))
    receiver = endpoint(scenario, folder / "h1", "h1=pa")
    time.sleep(1.0)
    sender = endpoint(scenario, folder / "h0", "h0=a0")
    sender.communicate(timeout=60)
    receiver.communicate(timeout=60)
    return {"sender": outcome(folder / "h0"), "receiver": outcome(folder / "h1")}


def exchange(folder: Path) -> dict[str, Any]:
    """The same, but what each knows of the other comes from perftest's exchange, which both of them speak."""
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)
    scenario = folder / "two.yaml"
    scenario.write_text(TWO.format(duration="60s", rate="200Mbps", message="64KiB", messages=40))
    at = ("--perftest", "127.0.0.1:18515")
    receiver = endpoint(scenario, folder / "h1", "h1=pa", *at)
    for _ in range(50):  # until the other one listens
        sender = endpoint(scenario, folder / "h0", "h0=a0", *at)
        sender.communicate(timeout=60)
        if sender.returncode == 0:
            break
    receiver.communicate(timeout=60)
    return {"sender": outcome(folder / "h0"), "receiver": outcome(folder / "h1")}


def verbs(folder: Path) -> dict[str, Any]:
    """SENDs and READs between two hosts on a link that loses, and between two that meet as perftest does."""
    scenario = folder / "two.yaml"
    text = TWO.format(duration="10s", rate="200Mbps", message="64KiB", messages=40)
    scenario.write_text(text.replace("delay: 10us", "delay: 10us, loss: 0.01"))
    told = {}
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)
    at = ("--perftest", "127.0.0.1:18515")
    for verb in ("send", "read"):
        err = endpoint(scenario, folder / verb, "h0=a0", "h1=pa", "--verb", verb).communicate(timeout=60)[1]
        if err:
            raise SystemExit(err)
        told[verb] = outcome(folder / verb)
        other = endpoint(scenario, folder / f"{verb}1", "h1=pa", "--verb", verb, *at)
        for _ in range(50):  # until the other one listens
            asks = endpoint(scenario, folder / f"{verb}0", "h0=a0", "--verb", verb, *at)
            asks.communicate(timeout=60)
            if asks.returncode == 0:
                break
        other.communicate(timeout=60)
        told[f"{verb} apart"] = outcome(folder / f"{verb}0")
        told[f"{verb} apart"]["got"] = outcome(folder / f"{verb}{1 if verb == 'send' else 0}")["delivered"]
    return told


def one_by_one(folder: Path) -> dict[str, Any]:
    """Each message waits for the answer to the one before."""
    from tailback.results import Result

    scenario = folder / "two.yaml"
    text = TWO.format(duration="10s", rate="200Mbps", message="64KiB", messages=40)
    scenario.write_text(text.replace("messages: 40", "messages: 40, depth: 1"))
    err = endpoint(scenario, folder / "out", "h0=a0", "h1=pa").communicate(timeout=60)[1]
    if err:
        raise SystemExit(err)
    result = Result.load(folder / "out")
    return {"end_ps": result.flows.to_pylist()[0]["end_ps"], "late_ns": result.meta["live"]["late_ns"]}


def hostile(folder: Path) -> dict[str, Any]:
    """Frames that are none of the run's, to one of its hosts, while it runs."""
    scenario = folder / "two.yaml"
    scenario.write_text(TWO.format(duration="1500ms", rate="50Mbps", message="64KiB", messages="null"))
    own = bytes.fromhex("025442000001")
    frames = []
    for number in range(40):
        packet = write(number, 64, FIRST_QP)
        wrong = bytearray(packet)
        wrong[-1] ^= 1
        frames += [
            packet,  # to another address
            own + packet[6:],  # from another host
            own + bytes(wrong[6:]),  # its ICRC is wrong
            own + packet[6:-9],  # cut
            own + packet[6:12] + b"\x88\xb5" + packet[14:],  # of another protocol
            own + bytes(range(6, 50)),
        ]
    process = endpoint(scenario, folder / "out", "h0=a0", "h1=pa")
    a = end("a0")
    while process.poll() is None:
        for frame in frames:
            a.send(frame)
        time.sleep(0.05)
    return {"status": process.returncode, **outcome(folder / "out")}


def received(interface: str) -> int:
    """Packets that came to an interface."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    found = next(line.split() for line in lines if line.strip().startswith(f"{interface}:"))
    return int(found[2])


def vanish(folder: Path) -> dict[str, Any]:
    """An interface goes away while a run is under way."""
    scenario = folder / "two.yaml"
    scenario.write_text(TWO.format(duration="30s", rate="50Mbps", message="64KiB", messages="null"))
    process = endpoint(scenario, folder / "out", "h0=a0", "h1=pa")
    before = received("pa")
    while received("pa") < before + 20:
        time.sleep(0.1)
    subprocess.run(["ip", "link", "del", "a0"], check=True)
    err = process.communicate(timeout=60)[1]
    files = sorted(path.name for path in (folder / "out").glob("*"))
    return {"status": process.returncode, "err": err, "files": files}


CONTROLLER = """
import tailback

class Halve(tailback.Controller):
    uses = ("cnps", "timer")
    signals = {"cuts": "How often the rate was halved."}

    def __init__(self, link):
        super().__init__(link)
        self.cuts = 0
        self.next_timeout = 100_000_000

    def on_cnp(self, now):
        self.cuts += 1
        self.rate = max(self.rate / 2, 1e6)

    def on_timeout(self, now):
        self.rate = min(self.rate + 1e6, self.link.rate)
        self.next_timeout = now + 100_000_000
"""


def controlled(folder: Path) -> dict[str, Any]:
    """Two hosts with a controller in Python; the congestion point between them marks."""
    from tailback.results import Result

    scenario, given, file = folder / "two.yaml", folder / "point.yaml", folder / "halve.py"
    scenario.write_text(TWO.format(duration="500ms", rate="100Mbps", message="64KiB", messages="null"))
    given.write_text("rate: 20Mbps\nbuffer: 2MB\necn: {k_min: 20KB, k_max: 60KB, p_max: 1}\n")
    command = [*COMMAND, "point", "pa", "pb", str(given), "--out", str(folder / "point"), "--json", "--quiet"]
    point = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    through(point)
    told = []
    for text in (CONTROLLER, CONTROLLER.replace("self.cuts += 1", "self.cuts /= 0")):
        file.write_text(text)
        out = folder / f"out{len(told)}"
        ended = endpoint(scenario, out, "h0=a0", "h1=b0", "--controller", f"{file}:Halve")
        told.append((ended.communicate(timeout=60)[1], ended.returncode))
    point.send_signal(signal.SIGINT)
    point.communicate(timeout=60)
    if told[0][1]:
        raise SystemExit(told[0][0])
    result = Result.load(folder / "out0")
    flow = result.flows.to_pylist()[0]
    return {
        "cuts": result.bins.values("h0-h1/qp0", "cuts").max(),
        "cnps": flow["rp_cnp_handled"],
        "rate_bps": flow["rate_bps"],
        "wrong": result.meta["live"]["wrong_messages"],
        "raised": told[1],
    }


CASES = {
    "controlled": controlled,
    "drops": drops,
    "paused": paused,
    "shared": shared,
    "lossy": lossy,
    "led_away": led_away,
    "apart": apart,
    "exchange": exchange,
    "one_by_one": one_by_one,
    "verbs": verbs,
    "hostile": hostile,
    "vanish": vanish,
}


def pair_up() -> None:
    """Makes the two pairs."""
    for one, other in (("a0", "pa"), ("b0", "pb")):
        subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
        for name in (one, other):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", name, "mtu", "4200", "up"], check=True)


def main() -> None:
    pair_up()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(CASES[sys.argv[1]](Path(folder))))


if __name__ == "__main__":
    main()
