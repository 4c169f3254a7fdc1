"""What others published or proved, and nothing was fitted to: docs/checks.md lists each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tailback
from tailback.metrics import METRICS
from tailback.results import Result

# Zhu et al., SIGCOMM 2015, section 5.
ZHU: dict[str, Any] = {
    "host": {"dcqcn": {"profile": "sigcomm15"}},
    "switch": {"buffer": "9MB", "ecn": {"k_min": "5KB", "k_max": "200KB", "p_max": 0.01}},
}
FABRIC = ["h0..h2 s0 40Gbps", "s0 s1 40Gbps", "h3 s1 40Gbps", "h4 s1 40Gbps"]


def series(result: Result, entity: str, metric: str) -> Any:
    """The second half of a series."""
    values = np.asarray(result.bins.values(entity, metric))
    return values[len(values) // 2 :]


def parking_lot(control: str) -> list[float]:
    """Three senders behind one port of the receiver's switch and one at a port of its own: bit/s of each."""
    result = tailback.run(
        {
            **ZHU,
            "name": "parking-lot",
            "run": {"duration": "30ms"},
            "topology": {"kind": "graph", "switches": ["s0", "s1"], "links": FABRIC},
            "host": {**ZHU["host"], "congestion": control},
            "traffic": [{"kind": "write", "from": ["h0..h2", "h3"], "to": "h4"}],
        }
    )
    return [float(series(result, f"h{number}", "goodput_tx_bps").mean()) for number in range(4)]


def test_pauses_alone_give_the_near_sender_three_times_as_much_and_dcqcn_does_not() -> None:
    *far, near = parking_lot("none")
    assert np.allclose(near / np.array(far), 3, rtol=0.02)
    rates = parking_lot("dcqcn")
    assert max(rates) / min(rates) < 1.5


CLOS = ["h0..h4 t0", "h5 t1", "h6..h7 t2", "h8 t3", "h9..h10 t1"]
CLOS += [f"t{tor} l{leaf}" for tor in range(4) for leaf in ((0, 1) if tor < 2 else (2, 3))]
CLOS += [f"l{leaf} s{spine}" for leaf in range(4) for spine in range(2)]


def victim(control: str, others: int, draw: int) -> float:
    """Bit/s from h4 to h5 while h0 to h3, and others below another switch, write to h8. ECMP draws
    paths by how many connections there are before theirs.
    """
    to_h8 = {"kind": "write", "to": "h8"}
    traffic = [
        {"kind": "write", "from": "h9", "to": "h10", "qps": draw, "messages": 1},
        {**to_h8, "from": "h0..h3"},
        {"kind": "write", "from": "h4", "to": "h5"},
    ]
    result = tailback.run(
        {
            **ZHU,
            "name": "victim",
            "run": {"duration": "50ms"},
            "topology": {
                "kind": "graph",
                "switches": [f"{kind}{number}" for kind in "tl" for number in range(4)] + ["s0", "s1"],
                "links": CLOS,
                "link": {"rate": "40Gbps"},
            },
            "host": {**ZHU["host"], "congestion": control},
            "traffic": traffic + [{**to_h8, "from": f"h6..h{5 + others}"}] * bool(others),
        }
    )
    return float(series(result, "h4", "goodput_tx_bps").mean())


def test_a_victim_of_pauses_suffers_from_senders_that_it_shares_no_link_with() -> None:
    def median(control: str, others: int) -> float:
        return float(np.median([victim(control, others, draw) for draw in range(1, 8)]))

    # Nothing on its way is too slow for it: half of a link of 40 Gbit/s is left by the four beside it.
    assert median("none", 2) < 0.8 * median("none", 0) < 0.8 * 20e9
    assert median("dcqcn", 2) > 0.95 * median("dcqcn", 0)
    assert median("dcqcn", 2) > 2 * median("none", 2)


@pytest.mark.parametrize("senders", [2, 20])
def test_incasts_of_up_to_twenty_stand_below_the_upper_threshold(senders: int) -> None:
    result = tailback.run(
        {
            **ZHU,
            "name": "incast",
            "run": {"duration": "40ms"},
            "topology": {"kind": "star", "hosts": senders + 1, "link": {"rate": "40Gbps"}},
            "traffic": [{"kind": "write", "from": f"h0..h{senders - 1}", "to": f"h{senders}"}],
        }
    )
    assert 0 < METRICS["standing_queue_bytes"](result, since=0.02) < 200_000
    assert METRICS["goodput_of_ideal"](result, since=0.02) > 0.99


def test_hpcc_uses_its_share_of_the_link_and_has_no_queue() -> None:
    result = tailback.run("cc-incast", sets=["host.congestion=hpcc", "run.duration=10ms"])
    # Published: 16 to one at 95.5 % of the link, with next to nothing in the queue.
    assert abs(METRICS["link_utilisation"](result, since=0.005) - 0.955) < 0.005
    assert METRICS["standing_queue_bytes"](result, since=0.005) < 10_000


def slowdowns(control: str, *more: str) -> tuple[list[float], list[float]]:
    """Slowdowns of messages up to 30 KB, and above, at half load of web search."""
    ecn = "{k_min: 400KB, k_max: 1600KB, p_max: 0.2}"  # Alibaba's DCQCN at 100 Gbit/s
    sets = [f"host.congestion={control}", "traffic.0.load=0.5", "run.duration=6ms"]
    sets += ["host.dcqcn.profile=alibaba", *more]
    sets += [f"switch.ecn={ecn}"] if control == "dcqcn" else []
    flows = tailback.run("leaf-spine-websearch", sets=sets).flows
    rows = flows.select(["fct_ps", "ideal_fct_ps", "bytes_delivered", "state"]).to_pylist()
    sizes: tuple[list[float], list[float]] = ([], [])
    for row in rows:
        if row["state"] == "done":
            sizes[row["bytes_delivered"] > 30_000].append(row["fct_ps"] / row["ideal_fct_ps"])
    return sizes


def short_messages(control: str) -> float:
    return float(np.percentile(slowdowns(control)[0], 95))


def test_slowdowns_of_short_messages_are_in_the_published_order() -> None:
    hpcc, dctcp, dcqcn, timely = (short_messages(name) for name in ("hpcc", "dctcp", "dcqcn", "timely"))
    assert 1 < hpcc < dctcp / 1.5 < dctcp < min(dcqcn, timely) / 1.5


@pytest.mark.parametrize("probability", [1, 1 / 16])
def test_a_digest_does_for_hpcc_what_all_of_the_telemetry_does(probability: float) -> None:
    full, digest = slowdowns("hpcc"), slowdowns("pint", f"host.pint.probability={probability}")
    # Published: nearly the same, and long messages gain the bytes that the telemetry took.
    assert np.percentile(digest[0], 95) == pytest.approx(np.percentile(full[0], 95), rel=0.1)
    assert 0.9 < np.median(digest[1]) / np.median(full[1]) < 1


LOSSY: dict[str, Any] = {
    "name": "go-back-n",
    "run": {"duration": "100ms", "clock_ppm": 0},
    "host": {
        "congestion": "none",
        "mtu": "4096B",
        "transport": {"slow_restart": "never", "adaptive_timeout": "100us"},
    },
    "traffic": [{"kind": "write", "from": "h0", "to": "h1", "message": "1MiB", "depth": 8}],
}


def test_go_back_n_under_random_loss_is_as_fast_as_arithmetic_says() -> None:
    def rate(loss: float) -> float:
        link = {"rate": "100Gbps", "delay": "2us", "loss": loss}
        result = tailback.run({**LOSSY, "topology": {"kind": "point-to-point", "link": link}})
        return METRICS["total_goodput"](result, since="start")

    # A loss shows when the next packet comes, and what was sent until its NAK is back is sent again; where
    # packet or NAK are lost once more the timer has to find out. In packets of 334 ns:
    packet = 4178 * 8 / 100e9
    window = (packet + 2 * 2e-6 + 2 * 0.3e-6 + 86 * 8 / 100e9) / packet + 1
    timeout = 100e-6 / packet
    clean = rate(0)
    for loss in (1e-4, 1e-3):
        expected = 1 / (1 + loss * (window + 2 * loss * timeout))
        assert rate(loss) / clean == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("load", [0.4, 0.6])
def test_a_queue_of_random_arrivals_is_as_long_as_pollaczek_and_khinchine_say(
    load: float, tmp_path: Path
) -> None:
    sizes = tmp_path / "sizes.txt"
    sizes.write_text("1024 0\n1024 100\n")
    hosts = 48
    result = tailback.run(
        {
            "name": "poisson",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": hosts},
            "host": {"congestion": "none"},
            "switch": {"ecn": None},
            "traffic": [{"kind": "poisson", "load": load, "sizes": str(sizes)}],
        }
    )
    busy = np.mean([series(result, f"h{n}", "wire_rx_bps").mean() for n in range(hosts)]) / 100e9
    waits = np.mean([series(result, f"sw0:h{n}/tc3", "queue_mean_bytes").mean() for n in range(hosts)])
    # As many packets of 1,122 B as ACKs of 86 B on the wire; the queue counts frames. Little's law makes
    # bytes of the wait. Packets of one sender never wait for each other: of 47 senders the others are 46.
    each = busy / (1122 + 86)
    wait = each * (1122**2 + 86**2) / (2 * (1 - busy)) * (hosts - 2) / (hosts - 1)
    assert waits == pytest.approx(wait * each * (1102 + 66), rel=0.06)


def test_two_to_one_without_marks_is_as_measured_within_a_factor() -> None:
    result = tailback.run(
        {
            "name": "two-to-one",
            "preset": "connectx-5",
            "qos": "lossy-default",
            "run": {"duration": "150ms"},
            "topology": {"kind": "star", "hosts": 3},
            "host": {"mtu": "4096B"},
            "switch": {"ecn": None},
            "traffic": [
                {"kind": "write", "from": "h0..h1", "to": "h2", "qps": 4, "message": "1MiB", "depth": 16}
            ],
        }
    )
    # 73.9 Gbit/s on a ConnectX-5. The share that is dropped is not: see the page on what follows a loss.
    assert 73.9e9 / 1.5 < METRICS["total_goodput"](result, since=0.02) < 73.9e9 * 1.5
