"""The report as text: offline, escaped, complete. What it looks like is for tests/browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tailback
from synthetic import entities, incast, plan, result_of
from tailback import text
from tailback.metrics import findings
from tailback.report import figures, render
from tailback.report.figures import Labels, View, pack
from tailback.report.links import links, sides
from tailback.report.moments import moments
from tailback.report.page import scale_key
from tailback.report.plots import all_plots, fullest_queue
from tailback.report.queues import DEPTH_LEVELS, QueueStore
from tailback.report.senders import in_ranges, senders
from tailback.report.shares import fairness, items, queue_pairs
from tailback.report.tables import MOST_DROPS, drops, pauses
from tailback.report.tailback_chart import MOST_ROWS, choose, tailback_chart
from tailback.report.themes import DARK, DARK_PAPER
from tailback.report.tracked import _spans, _while_running
from tailback.results import Result


def run(senders: int = 16, **more: Any) -> Result:
    lossless = more.get("lossless", True)
    recording = incast(senders=senders, **more)
    return result_of(plan(senders, lossless), recording)


@pytest.fixture(scope="module")
def lossless() -> Result:
    return run()


@pytest.fixture(scope="module")
def html(lossless: Result) -> str:
    return render(lossless)


def test_nothing_comes_from_elsewhere(html: str) -> None:
    page = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=(?!["']?(?:#|data:))""", page)
    assert "default-src 'none'" in page
    assert html.count("* plotly.js (cartesian - minified) v") == 1
    assert "Licensed under the MIT license" in html


def test_a_report_is_small(html: str) -> None:
    assert len(html.encode()) < 2_000_000


def test_a_report_is_the_same_twice(lossless: Result, html: str) -> None:
    assert render(lossless) == html


def test_the_answer_comes_first_and_the_tailback_chart_before_other_plots(html: str) -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings[:4] == ["Where it is stuck", "Findings", "The tailback", "Total throughput"]
    for heading in ("Throughput of each sender", "Queue depth", "Rates of queue pairs", "Pauses", "Counters"):
        assert heading in headings


def test_text_of_a_scenario_is_escaped(html: str) -> None:
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_names_cannot_end_the_script() -> None:
    result = run(senders=2, bins=100)
    for queue in result.meta["queues"]:
        queue["queue"] = queue["queue"].replace("h2/rx", "</script><b>/rx")
    result.meta["name"] = "</script><script>alert(1)</script>"
    for part in render(result).split("</script>")[:-1]:
        assert "alert(1)" not in part.rsplit("<script", 1)[-1]


def test_every_axis_has_a_unit(lossless: Result) -> None:
    for plot in all_plots(lossless):
        for figure in plot.figures:
            for axis in ("xaxis", "yaxis"):
                assert re.search(r"\(.+\)$", figure.layout[axis]["title"]["text"]), (figure.id, axis)


def test_a_plot_of_nothing_is_a_sentence(lossless: Result) -> None:
    losses = next(plot for plot in all_plots(lossless) if plot.id == "losses")
    assert losses.figures == []
    assert "No packet was dropped" in losses.caption
    lossy = run(lossless=False)
    pauses = next(plot for plot in all_plots(lossy) if plot.id == "pauses")
    assert pauses.figures == []
    assert "PFC is off" in pauses.caption


def test_thresholds_are_drawn_in(lossless: Result) -> None:
    plot = next(plot for plot in all_plots(lossless) if plot.id == "queue")
    levels = [shape["y0"] for shape in plot.figures[0].layout["shapes"]]
    assert levels == [0.15, 1.5]  # MB


def test_rows_follow_the_path(lossless: Result) -> None:
    kinds = [row.kind for row in choose(lossless).rows]
    assert kinds == ["receive", "egress"] + ["ingress"] * 16 + ["send"] * 16
    # ACK queues that never held a kilobyte are no part of the tailback.
    assert choose(lossless).empty == 16


def test_above_forty_rows_the_fullest_stay() -> None:
    chosen = choose(run(senders=40, bins=100, qps=2))
    assert len(chosen.rows) == MOST_ROWS
    assert chosen.rows[0].kind == "receive"
    assert chosen.rows[1].queue == "sw0:h40/tc3"
    assert "The 40 fullest queues are drawn, 42 less full ones are not" in chosen.note


def test_signals_become_strokes(lossless: Result) -> None:
    figure = tailback_chart(View(lossless), choose(lossless), QueueStore())
    names = {trace["name"] for trace in figure.data if trace["type"] == "scatter"}
    assert names == {"CE marks", "pauses"}


def test_close_ups_are_where_something_happens(lossless: Result) -> None:
    found = moments(lossless)
    names = ", ".join(moment.name for moment in found)
    for what in ("first ECN marks", "first pauses", "most pauses", "fullest queues"):
        assert what in names
    marked = np.flatnonzero(lossless.bins.total("ecn_marked"))[0] * 1e-3
    moment = next(moment for moment in found if "first ECN marks" in moment.name)
    assert moment.begin_s <= marked < moment.end_s <= moment.begin_s + 0.05
    assert [moment.begin_s for moment in found] == sorted(moment.begin_s for moment in found)


def test_a_run_of_few_bins_has_no_close_ups() -> None:
    assert moments(run(senders=2, bins=60)) == []


def test_what_happens_late_has_a_close_up() -> None:
    result = run(senders=2)
    bins = result.bins
    queue = "sw0:h2/tc3"
    late = np.zeros(bins.count)
    late[1500:1510] = 1e7
    bins._at["queue_mean_bytes"][queue] = len(bins._rows)
    bins._rows = np.vstack([bins._rows, late])
    moment = next(moment for moment in moments(result) if "fullest queues" in moment.name)
    assert moment.begin_s <= 1.5 < moment.end_s < 1.6


def test_depths_on_the_page_are_those_of_the_run(lossless: Result) -> None:
    store = QueueStore()
    chart = tailback_chart(View(lossless), choose(lossless), store)
    assert store.add_others(lossless) == ""
    data = store.for_script()
    about, values = data["about"], np.frombuffer(gzip.decompress(base64.b64decode(data["packed"])), "<u2")
    names = [queue["name"] for queue in about["queues"]]
    assert len(set(names)) == len(names)
    assert names[next(trace["queue"] for trace in chart.data if "queue" in trace)] in names
    at = 0
    for queue in about["queues"]:
        if queue["name"] == "sw0:h16/tc3":
            depths = np.expm1(values[at : at + queue["points"]] / DEPTH_LEVELS * np.log1p(about["top"]))
            exact = lossless.bins.values("sw0:h16/tc3", "queue_mean_bytes")
            assert depths == pytest.approx(exact, rel=0.003, abs=1)
        at += (2 + queue["paused"]) * queue["points"]
    assert at == len(values)


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_in_both_themes() -> None:
    for color in (figures.INK, figures.MUTED):
        assert contrast(color, figures.PAPER) >= 4.5
        assert contrast(DARK[color], DARK_PAPER) >= 4.5
    for color in (figures.BLUE, figures.VERMILLION, figures.GREEN, figures.ORANGE):
        assert contrast(color, figures.PAPER) >= 3
        assert contrast(DARK[color], DARK_PAPER) >= 3


def test_every_colour_has_one_for_the_dark(html: str) -> None:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    assert set(re.findall(r'"(#[0-9a-f]{6}|rgba[^"]*)"', found[1], re.IGNORECASE)) - {"rgba(0,0,0,0)"} <= (
        set(DARK) | set(DARK.values())
    )


def test_a_plot_says_in_words_what_it_shows(lossless: Result) -> None:
    for plot in all_plots(lossless):
        for figure in plot.figures:
            assert figure.label.endswith("."), figure.id
            assert re.search(r"\d", figure.label), figure.id
    total = next(plot for plot in all_plots(lossless) if plot.id == "throughput").figures[0]
    assert re.search(r"total: lowest 0, highest \S+ at \S+ s, at the end \S+\.", total.label)


def test_contents_and_findings_lead_to_sections(html: str) -> None:
    ids = set(re.findall(r'<section id="([^"]+)"', html))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= ids
    assert '<a href="#queue">Standing queue</a>' in html


def test_a_rate_begins_with_its_queue_pair(lossless: Result) -> None:
    start, end = _spans(lossless, {"h3-h16/qp0"})["h3-h16/qp0"]
    rates = _while_running(lossless, "h3-h16/qp0", start, end)
    before = lossless.bins.start_s + lossless.bins.width_s <= start
    assert before.any()
    assert np.isnan(rates[before]).all()
    assert np.isfinite(rates[~before]).all()
    ended = _while_running(lossless, "h3-h16/qp0", start, 1.0)
    after = lossless.bins.start_s >= 1.0
    assert after.any()
    assert np.isnan(ended[after]).all()


def test_thinning_keeps_means_and_peaks(lossless: Result) -> None:
    view = View(lossless)
    values = np.arange(2000.0)
    assert view.group(1000) == 2
    assert view.reduce(values, 1000)[:3].tolist() == [0.5, 2.5, 4.5]
    assert view.reduce(values, 1000, "max")[:3].tolist() == [1, 3, 5]
    assert view.per_second(np.ones(2000), 1000)[0] == pytest.approx(1000)
    # 2000 bins of 1 ms in 1000 groups: the first group's middle is at 1 ms, groups are 2 ms apart.
    assert view.axis(1000) == {"x0": pytest.approx(0.001), "dx": pytest.approx(0.002)}


def test_labels_do_not_cover_each_other() -> None:
    labels = Labels(top=100)
    for value in (50, 50, 51, 100, 100, 0):
        labels.add(value, "x", "#000")
    at = sorted(note["y"] * 200 for note in labels.annotations())
    assert all(b - a >= 13.99 for a, b in pairwise(at))
    assert max(at) <= 200


def test_arrays_are_packed_as_plotly_reads_them() -> None:
    packed = pack(np.array([[1.0, 2.0]]))
    assert packed["dtype"] == "f4"
    assert packed["shape"] == "1, 2"
    assert base64.b64decode(packed["bdata"]) == np.array([1, 2], "<f4").tobytes()


def test_findings_of_a_lossy_run() -> None:
    lossy = run(lossless=False, always_dropping=True)
    words = {finding.what: finding for finding in findings(lossy)}
    assert words["Drops"].tone == "warning"
    assert "sw0:h16/tc3 (egress threshold)" in words["Drops"].words
    assert words["Pauses"].figure == "off"
    assert "min/max 0.3" in words["Fairness"].words


@pytest.mark.parametrize("bins", [1, 2, 7])
def test_a_run_of_few_bins_has_a_report(bins: int) -> None:
    assert "Findings" in render(run(senders=2, bins=bins, qps=1))


@pytest.mark.filterwarnings("error")
def test_queue_pairs_that_start_late_have_a_plot() -> None:
    """In its close-up none of them runs."""
    data = {
        "name": "late",
        "run": {"duration": "20ms"},
        "topology": {"kind": "star", "hosts": 2},
        "traffic": [{"kind": "write", "from": "h0", "to": "h1", "qps": 12, "start": "15ms"}],
    }
    (plot,) = queue_pairs(tailback.run(data))
    assert plot.id == "pairs"


def test_figures_are_json_of_finite_numbers(html: str) -> None:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    drawn = json.loads(found[1])["figures"]
    assert len({figure["id"] for figure in drawn}) == len(drawn) >= 6


def test_a_run_too_short_to_be_steady_is_not_called_unsteady() -> None:
    result = tailback.run("first-flow", sets=["run.duration=1ms"])
    words = {finding.what: finding.words for finding in findings(result)}["Throughput"]
    assert words.endswith("over the whole run, which is too short to tell whether the total was steady.")


def test_the_rate_of_a_message_is_drawn_while_it_is_sent() -> None:
    traffic = [{"kind": "flows", "list": ["h0 h1 100KB 0", "h1 h0 100KB 50us"]}]
    result = tailback.run(
        {
            "name": "x",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": 2},
            "traffic": traffic,
        }
    )
    spans = _spans(result, set(result.bins.entities("rate_bps")))
    assert {name: start for name, (start, _) in spans.items()} == {"h0-h1/flow0": 0, "h1-h0/flow1": 50e-6}
    first = _while_running(result, "h0-h1/flow0", *spans["h0-h1/flow0"])
    assert np.isfinite(first[:5]).all()
    assert np.isnan(first[40:]).all()


@pytest.mark.parametrize("depth", [2, 40, 1000, 10_000, 100_000])
def test_labels_of_the_colour_scale_do_not_cover_each_other(depth: int) -> None:
    result = tailback.run(
        "first-flow", sets=["run.duration=20us", f"traffic.0.qps={depth}", "traffic.0.message=1MB"]
    )
    places = [label["at"] for label in scale_key(choose(result))["labels"]]
    assert (places[0], places[-1]) == (0, 1)
    # A label such as "100 MB" is some 40 of the 234 px that the scale has on a phone.
    assert min(after - before for before, after in pairwise(places)) > 0.14
    assert len(places) >= 3


def test_links_that_fail_are_counted_in_a_sentence() -> None:
    page = render(tailback.run("link-failure", sets=["run.duration=5ms"]))
    assert "In this run links failed or were repaired 2 times." in page


def unpacked(figure: Any, trace: int = 0) -> Any:
    return np.frombuffer(base64.b64decode(figure.data[trace]["y"]["bdata"]), dtype="<f4")


def test_senders_side_by_side_slowest_first() -> None:
    result = run(senders=64, qps=4, bins=500, always_dropping=True, lossless=False)
    [plot] = fairness(result)
    [figure] = plot.figures
    values = unpacked(figure)
    assert len(values) == 64
    assert (np.diff(values) >= 0).all()
    hosts = figure.data[0]["customdata"]
    assert (hosts[0], hosts[-1]) == ("h0", "h63"), "shares grow with the number"
    assert "Jain's index 0.9" in plot.caption
    assert fairness(run(senders=2, qps=2, bins=200)) == []


def test_queue_pairs_have_a_plot_of_what_they_delivered(lossless: Result) -> None:
    [plot] = queue_pairs(lossless)
    median = unpacked(plot.figures[0], -1)
    # 16 senders with 64 queue pairs share what 100 Gbit/s leave for payload: 89.1 Mbit/s each.
    assert np.nanmedian(median) == pytest.approx(89.1, rel=0.05)
    assert "64 tracked of 1,024 queue pairs" in plot.caption


def test_traffic_items_have_a_plot_where_there_are_several(lossless: Result) -> None:
    assert items(lossless) == []
    recording = incast(senders=2, qps=2, bins=200)
    rows = pa.table(recording.series)
    total = rows.filter(pa.compute.equal(rows.column("metric"), "goodput_rx_bps")).to_pydict()
    for item, share in (("write0", 0.75), ("tcp1", 0.25)):
        named = {
            **total,
            "entity": [f"item:{item}"] * 200,
            "value": [value * share for value in total["value"]],
        }
        rows = pa.concat_tables([rows.cast(rows.schema), pa.table(named, schema=rows.schema)])
    recording.series = rows
    recording.entities = entities(sorted(set(rows.column("entity").to_pylist())))
    result = result_of(plan(2), recording)
    [plot] = items(result)
    assert [trace["name"] for trace in plot.figures[0].data] == ["tcp1", "write0"]
    tcp, write = (unpacked(plot.figures[0], trace) for trace in (0, 1))
    assert tcp * 3 == pytest.approx(write, rel=1e-5)
    assert "Throughput of each traffic item" in render(result)


def test_many_drops_end_in_one_row() -> None:
    result = run(senders=4, bins=200, lossless=False)
    result.meta["drops"] = [
        {"where": f"sw0:h{i}/tc3", "reason": "full", "packets": 1000 - i, "bytes": 10} for i in range(100)
    ]
    rows = drops(result).rows
    assert len(rows) == MOST_DROPS + 1
    rest = sum(1000 - i for i in range(MOST_DROPS, 100))
    assert rows[-1] == ["76 others", "", f"{rest:,}", "760 B"]


@pytest.fixture(scope="module")
def fabric() -> Result:
    """Two leaves of four hosts, two spines: 2:1, so that an all-to-all is bound by the links between."""
    topology = {
        "kind": "leaf-spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 4,
        "link": {"rate": "100Gbps"},
        "fabric": {"rate": "100Gbps"},
    }
    traffic = [{"kind": "all-to-all", "message": "256KB"}]
    return tailback.run({"name": "x", "run": {"duration": "5ms"}, "topology": topology, "traffic": traffic})


def test_a_job_against_the_bound_of_its_links(fabric: Result) -> None:
    [job] = fabric.summary["jobs"]
    assert (job["messages"], job["left"], job["hosts"]) == (56, 0, 8)
    payload = tailback.metrics.links.ideal_payload_share(fabric)
    # Each leaf's four hosts send to four others, 16 messages, over two links up.
    bound = 16 * 256e3 * 8 / (2 * 100e9 * payload)
    assert job["bound_s"] == pytest.approx(bound)
    assert job["bound_at"] == "the links above leaf0 and 1 other like it"
    assert bound < job["time_s"] < 3 * bound
    # As nccl-tests have it: of a buffer of 8 parts each host keeps one.
    assert job["algorithm_bps"] == pytest.approx(8 * 256e3 * 8 / job["time_s"])
    assert job["bus_bps"] == pytest.approx(job["algorithm_bps"] * 7 / 8)
    assert job["of_bound"] == pytest.approx(bound / job["time_s"])
    words = {finding.what: finding.words for finding in findings(fabric)}
    assert "Slowdown" not in words
    assert "bus bandwidth" in words["Job"]


def test_a_job_that_is_not_done_has_no_time(fabric: Result) -> None:
    data = tailback.run("rail-all-to-all", sets=["run.duration=20us"])
    [job] = data.summary["jobs"]
    assert job["time_s"] is None
    assert job["left"] > 0
    found = next(finding for finding in findings(data) if finding.what == "Job")
    assert found.figure == f"{job['left']:,} left"


def test_arrivals_at_random_are_no_job() -> None:
    assert tailback.run("leaf-spine-websearch", sets=["run.duration=200us"]).summary["jobs"] == []


def test_links_by_tier_and_heat(fabric: Result) -> None:
    every, _ = sides(fabric)
    assert [(side.tier, side.direction, len(side.uses)) for side in every] == [
        ("hosts", "up", 8),
        ("hosts", "down", 8),
        ("leaf-spine", "up", 4),
        ("leaf-spine", "down", 4),
    ]
    up = every[2]
    uses = up.uses
    node, ratio = up.imbalance or ("", 0)
    mine = [use for (switch, _), use in uses.items() if switch == node]
    assert ratio == pytest.approx(max(mine) / (sum(mine) / 2))
    [heat], table = links(fabric)
    assert [figure.heading for figure in heat.figures] == ["leaf-spine, up", "leaf-spine, down"]
    values = np.frombuffer(base64.b64decode(heat.figures[0].data[0]["z"]["bdata"]), "<f4").reshape(2, 2)
    assert values[1, 0] == pytest.approx(uses["leaf1", "spine0"] * 100, rel=1e-5)
    assert len(table.rows) == 4


def test_senders_alike_are_one_row(fabric: Result, lossless: Result) -> None:
    for row in senders(fabric).rows:
        assert row[2].startswith("all-to-all0 · to 7 hosts")
    assert sum(int(row[1]) for row in senders(fabric).rows) == 8
    rows = senders(lossless).rows
    assert len(rows) < 16
    assert "to h16 · at sw0" in rows[0][2]
    assert in_ranges(["h0", "h1", "h2", "h7", "leaf1", "x"]) == "h0..h2, h7, leaf1, x"


def test_pauses_are_shares_of_the_run_and_of_its_worst_second_where_it_has_one(lossless: Result) -> None:
    table = pauses(lossless)
    of_run, of_second = (table.columns.index(name) for name in ("Of the run", "Of the worst second"))
    assert all(row[of_run].endswith("%") and row[of_second].endswith("%") for row in table.rows)
    short = run(senders=4)
    short.bins.end_s = 0.5
    assert "Of the worst second" not in pauses(short).columns
    longest = max(pause["paused_ps"] for pause in lossless.meta["pauses"]) / 1e12 / lossless.bins.end_s
    found = next(finding for finding in findings(lossless) if finding.what == "Pauses")
    assert found.figure == text.share(longest)


def test_where_no_port_has_a_queue_the_fullest_of_others_is_drawn(lossless: Result) -> None:
    result = run(senders=2, bins=200)
    name, kind = fullest_queue(result)
    assert (name, kind) == ("sw0:h2/tc3", "egress queue")
    result.meta["queues"] = [queue for queue in result.meta["queues"] if queue["kind"] != "egress"]
    name, kind = fullest_queue(result)
    assert kind == "queue"
    assert name.startswith("sw0:h")
    assert f'data-first="{name}"' in render(result)
