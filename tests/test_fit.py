"""What a fit infers, on a stand-in for runs: intervals hold the truth as often as they say, and what is not
known is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fit_lab import DELAY, LAB, LATENCY
from tailback.errors import InputError
from tailback.recorded.bins import Array
from tailback.study.emulator import Emulated, emulate
from tailback.study.fit_design import Fit, Observed, read_fit
from tailback.study.inference import infer
from tailback.study.posterior import log_likelihood, posterior
from tailback.study.priors import Axes

# A stand-in for runs: three metrics of two settings, and what seeds make of them.

Model = Callable[[Array], Array]


def asked_of(unknowns: int, held_out: bool = True) -> Fit:
    paths = [DELAY, LATENCY, "switch.latency"][:unknowns]
    return read_fit(
        {
            "scenario": LAB,
            "free": dict.fromkeys(paths, "100ns..10us:log"),
            "observations": [
                {"metric": "total_goodput", "value": 1, "unit": "bit/s", "tolerance": 0.05},
                {"metric": "jain_index", "value": 1, "tolerance": 0.1},
                {
                    "metric": "message_latency",
                    "value": 1,
                    "unit": "s",
                    "tolerance": 0.1,
                    "held_out": held_out,
                },
            ],
        },
        {},
    )


def smooth(points: Array) -> Array:
    first, second = points[:, 0], points[:, -1]
    return np.stack([1 + first + 0.5 * second**2, np.sin(2 * second) - first, 2 + first * second], axis=1)


def in_a_run(model: Model, points: Array, seeds: int, rng: np.random.Generator) -> Array:
    """Points, metrics and seeds; what a seed does to the second metric it half does to the third."""
    noise = rng.standard_normal((len(points), 3, seeds)) * np.array([0.02, 0.1, 0.05])[:, None]
    noise[:, 2] += noise[:, 1] / 2
    return np.asarray(model(points)[:, :, None] + noise * (0.5 + points[:, :1, None]))


def emulated(
    asked: Fit, model: Model, rng: np.random.Generator, count: int = 24, alike: bool = False
) -> Emulated:
    """With `alike`, a seed does the same to all points, as common random numbers do."""
    from scipy.stats import qmc

    points = qmc.LatinHypercube(len(asked.free), rng=np.random.default_rng(1)).random(count)
    values = in_a_run(model, points, 4, rng)
    if alike:
        moved = in_a_run(model, points[:1], 4, rng) - model(points[:1])[:, :, None]
        values = model(points)[:, :, None] + moved * (0.5 + points[:, :1, None]) / (0.5 + points[0, 0])
    outputs = [one.output for one in asked.observed]
    return emulate(
        asked.axes, points, {output: values[:, index] for index, output in enumerate(outputs)}, outputs
    )


def observing(asked: Fit, model: Model, truth: Array, rng: np.random.Generator) -> list[Observed]:
    values = in_a_run(model, truth[None], 1, rng)[0, :, 0]
    return [
        one._replace(value=float(value + one.tolerance * rng.standard_normal()))
        for one, value in zip(asked.observed, values, strict=True)
    ]


def with_observed(asked: Fit, observed: list[Observed]) -> Fit:
    copy = asked.model_copy()
    copy.__dict__["observed"] = observed
    return copy


@pytest.mark.parametrize("unknowns", [1, 2])
def test_intervals_hold_the_truth_as_often_as_they_say(unknowns: int) -> None:
    rng = np.random.default_rng(1)
    asked = asked_of(unknowns)
    runs = emulated(asked, smooth, rng)
    held = []
    for _ in range(50):
        truth = rng.random(unknowns)
        observed = observing(asked, smooth, truth, rng)
        found = posterior(log_likelihood(runs, observed[:2]), asked.axes)
        held += [
            low <= truth[i] <= high for i, (low, high) in enumerate(map(found.interval, range(unknowns)))
        ]
    assert 0.85 <= np.mean(held) <= 0.95


def test_what_seeds_do_to_all_points_alike_does_not_go_away_with_points() -> None:
    """Where the lab's figures are means over many runs, the few seeds of the fit are what is not exact."""
    rng = np.random.default_rng(1)
    asked = asked_of(1)
    held = []
    for _ in range(50):
        runs = emulated(asked, smooth, rng, 12, alike=True)
        truth = rng.random(1)
        values = smooth(truth[None])[0]
        observed = [
            one._replace(value=float(value), tolerance=0.005, runs=1000)
            for one, value in zip(asked.observed, values, strict=True)
        ]
        low, high = posterior(log_likelihood(runs, observed[:1]), asked.axes).interval(0)
        held.append(low <= truth[0] <= high)
    assert 0.85 <= np.mean(held) <= 0.95


def test_the_whole_inference_says_what_is_known() -> None:
    rng = np.random.default_rng(2)
    asked = asked_of(2)
    runs = emulated(asked, smooth, rng)
    truth = np.array([0.3, 0.6])
    found = infer(with_observed(asked, observing(asked, smooth, truth, rng)), runs)
    for unknown, true in zip(found.unknowns, truth, strict=True):
        low, high = unknown.profile.interval()
        assert unknown.low <= true <= unknown.high
        assert low <= true <= high
        assert low <= unknown.best <= high
    assert [one.role for one in found.answers] == ["calibrated", "calibrated", "predicted"]
    predicted = found.answers[2]
    assert not predicted.missed
    assert predicted.low < 2 + 0.3 * 0.6 < predicted.high


def test_what_makes_no_difference_is_not_identified() -> None:
    rng = np.random.default_rng(3)
    asked = asked_of(2)

    def first_only(points: Array) -> Array:
        return smooth(np.stack([points[:, 0], np.full(len(points), 0.5)], axis=1))

    found = infer(
        with_observed(asked, observing(asked, first_only, np.array([0.5, 0.5]), rng)),
        emulated(asked, first_only, rng),
    )
    assert [one.verdict for one in found.unknowns] == ["identified", "not identified"]
    assert not found.unknowns[1].at_edge


@pytest.mark.parametrize("unknowns", [2, 3])
def test_two_that_add_up_trade_off_and_another_measure_tells_them_apart(unknowns: int) -> None:
    rng = np.random.default_rng(4)
    asked = asked_of(unknowns)

    def sums(points: Array) -> Array:
        both = points[:, 0] + points[:, 1]
        return np.stack([1 + both, both * 3, 4 * points[:, 0]], axis=1)

    runs = emulated(asked, sums, rng, 30)
    observed = observing(asked, sums, np.full(unknowns, 0.5), rng)
    # The third is not observed: a candidate.
    found = infer(with_observed(asked, observed[:2]), runs)
    (trade,) = [one for one in found.trades if {one.one, one.other} == {DELAY, LATENCY}]
    assert trade.correlation < -0.9
    assert found.unknowns[0].verdict != "identified"
    assert found.next[0].output == observed[2].output
    assert found.next[0].each[0] > 0.4
    if unknowns == 3:
        assert found.unknowns[2].verdict == "not identified"


def test_a_truth_beyond_the_prior_is_a_miss_at_its_edge() -> None:
    rng = np.random.default_rng(5)
    asked = asked_of(1, held_out=False)
    runs = emulated(asked, smooth, rng)
    found = infer(with_observed(asked, observing(asked, smooth, np.array([1.5]), rng)), runs)
    (unknown,) = found.unknowns
    assert unknown.verdict == "only a lower limit"
    assert unknown.at_edge
    assert found.answers[0].missed
    assert abs(found.answers[0].off) > 2


def test_the_sampler_finds_what_the_grid_finds() -> None:
    rng = np.random.default_rng(6)
    asked = asked_of(2)
    likelihood = log_likelihood(
        emulated(asked, smooth, rng), observing(asked, smooth, np.array([0.4, 0.7]), rng)
    )
    grid = posterior(likelihood, asked.axes)
    # A third setting that nothing depends on.
    three = posterior(lambda points: likelihood(points[:, :2]), Axes((0, 0, 0)))
    for unknown in (0, 1):
        width = np.subtract(*grid.interval(unknown)[::-1])
        assert np.allclose(three.interval(unknown), grid.interval(unknown), atol=0.12 * width)
    assert np.allclose(three.interval(2), (0.05, 0.95), atol=0.04)


# Unknowns that are one of a list.


def switched(unknowns: int, ranges: int, **observation: Any) -> Fit:
    """A switch of two positions and a list of three values, before so many ranges."""
    lists: dict[str, Any] = {"host.dcqcn.clamp_tgt_rate": "true,false", "traffic.0.load": [0.2, 0.3, 0.4]}
    free = dict(list(lists.items())[:unknowns])
    free |= dict.fromkeys([DELAY, LATENCY, "switch.latency"][:ranges], "100ns..10us:log")
    first = {"metric": "total_goodput", "unit": "bit/s", "tolerance": 0.05, "value": 1} | observation
    others = [
        {"metric": "jain_index", "value": 1, "tolerance": 0.1},
        {"metric": "message_latency", "value": 1, "unit": "s", "tolerance": 0.1, "held_out": True},
    ]
    return read_fit({"scenario": LAB, "free": free, "observations": [first, *others]}, {})


def stepped(asked: Fit) -> Model:
    """Metrics that hang on positions and, within each, on the first range."""

    def model(points: Array) -> Array:
        position = asked.axes.chosen(points, 0) + 0.4 * points[:, -1]
        second = asked.axes.chosen(points, 1) if len(asked.axes.listed) > 1 else 0.0
        return np.stack([1 + position + 0.3 * second, second - position, 2 + position], axis=1)

    return model


def at_random(asked: Fit, rng: np.random.Generator) -> Array:
    point = rng.random((1, len(asked.free)))
    for unknown in asked.axes.listed:
        point[:, unknown] = asked.axes.values(unknown)[asked.axes.chosen(point, unknown)]
    return point[0]


@pytest.mark.parametrize(("lists", "ranges"), [(1, 1), (2, 1), (2, 0), (1, 3)])
def test_hidden_positions_of_switches_are_found(lists: int, ranges: int) -> None:
    rng = np.random.default_rng(7)
    asked = switched(lists, ranges)
    model = stepped(asked)
    if ranges:
        runs = emulated(asked, model, rng, 40)
    else:
        every = np.array([[a, b] for a in asked.axes.values(0) for b in asked.axes.values(1)])
        values = in_a_run(lambda points: model(points) - 0.4 * points[:, -1:], every, 4, rng)
        outputs = [one.output for one in asked.observed]
        runs = emulate(asked.axes, every, {o: values[:, i] for i, o in enumerate(outputs)}, outputs)
    found_again = []
    for _ in range(10):
        truth = at_random(asked, rng)
        observed = observing(asked, model, truth, rng) if ranges else []
        if not ranges:
            values = (model(truth[None]) - 0.4 * truth[-1])[0]
            observed = [o._replace(value=float(v)) for o, v in zip(asked.observed, values, strict=True)]
        found = infer(with_observed(asked, observed), runs)
        for index in asked.axes.listed:
            unknown, number = found.unknowns[index], int(asked.axes.chosen(truth[None], index)[0])
            assert sum(unknown.probabilities) == pytest.approx(1)
            assert not unknown.at_edge
            found_again.append(unknown.probabilities[number] > 0.5)
            if unknown.verdict == "identified":
                assert unknown.probabilities[number] >= 0.9
                assert (
                    int(asked.axes.chosen(np.array([[u.best for u in found.unknowns]]), index)[0]) == number
                )
    assert np.mean(found_again) > 0.85


def test_probabilities_of_positions_are_right_as_often_as_they_say() -> None:
    """Of all positions that were given so much, so many are the true one."""
    rng = np.random.default_rng(8)
    asked = switched(1, 1)

    def faint(points: Array) -> Array:
        position = 0.12 * asked.axes.chosen(points, 0) + 0.1 * points[:, -1]
        return np.stack([1 + position, -position, 2 + position], axis=1)

    runs = emulated(asked, faint, rng, 24)
    given, true = [], []
    for _ in range(400):
        truth = at_random(asked, rng)
        observed = observing(asked, faint, truth, rng)
        found = posterior(log_likelihood(runs, observed[:2]), asked.axes)
        each = found.probabilities(0)
        given.append(float(each.max()))
        true.append(int(each.argmax()) == int(asked.axes.chosen(truth[None], 0)[0]))
    assert min(given) < 0.6
    assert np.mean(true) == pytest.approx(np.mean(given), abs=0.05)


def test_a_position_that_makes_no_difference_is_not_identified() -> None:
    rng = np.random.default_rng(9)
    asked = switched(2, 0)
    every = np.array([[a, b] for a in asked.axes.values(0) for b in asked.axes.values(1)])

    def second_only(points: Array) -> Array:
        second = asked.axes.chosen(points, 1).astype(float)
        return np.stack([1 + (second > 0), second * 0, second * 0], axis=1)

    values = in_a_run(second_only, every, 4, rng)
    outputs = [one.output for one in asked.observed]
    runs = emulate(asked.axes, every, {o: values[:, i] for i, o in enumerate(outputs)}, outputs)
    observed = [o._replace(value=v) for o, v in zip(asked.observed, (2.0, 0.0, 0.0), strict=True)]
    found = infer(with_observed(asked, observed), runs)
    switch, listed = found.unknowns
    assert switch.verdict == "not identified"
    assert switch.probabilities == pytest.approx((0.5, 0.5), abs=0.15)
    assert listed.verdict == "only some ruled out"
    assert listed.probabilities[0] < 0.01


@pytest.mark.parametrize(("limit", "low", "high"), [("at_most", 0.0, 0.55), ("at_least", 0.5, 1.0)])
def test_a_limit_leaves_what_keeps_to_it(limit: str, low: float, high: float) -> None:
    rng = np.random.default_rng(10)
    asked = read_fit(
        {
            "scenario": LAB,
            "free": {DELAY: "100ns..10us:log"},
            "observations": [
                {"metric": "jain_index", limit: 1.5, "tolerance": 0.02},
                {"metric": "message_latency", limit: 2.9, "unit": "s", "tolerance": 0.05, "held_out": True},
            ],
        },
        {},
    )
    points = np.linspace(0, 1, 12)[:, None]
    noise = 0.01 * rng.standard_normal((12, 4))
    outputs = [one.output for one in asked.observed]
    runs = emulate(
        asked.axes, points, {outputs[0]: 1 + points + noise, outputs[1]: 2 + points + noise}, outputs
    )
    found = infer(asked, runs)
    (unknown,) = found.unknowns
    assert low <= unknown.low < unknown.high <= high
    assert unknown.verdict == ("only an upper limit" if limit == "at_most" else "only a lower limit")
    fitted, predicted = found.answers
    assert fitted.off == 0
    assert not fitted.missed
    assert predicted.missed == (limit == "at_least" and predicted.high < 2.75)
    assert fitted.observed.in_words == f"{limit.replace('_', ' ')} 1.5"


IMPOSSIBLE = [
    *(("goodput_of_ideal", "%", value) for value in (-5, -0.001, 100.5, 1e6)),
    *(("goodput_of_ideal", "share", value) for value in (-0.1, 1.5)),
    ("total_goodput", "Gbit/s", -1),
    ("perftest_bandwidth", "MiB/s", -0.01),
    ("standing_queue_bytes", "KB", -3),
    ("message_latency", "us", -1),
    ("cnps", "", -1),
    ("jain_index", "", -0.5),
]


@pytest.mark.parametrize("bound", ["value", "at_most", "at_least"])
@pytest.mark.parametrize(("metric", "unit", "value"), IMPOSSIBLE)
def test_a_figure_that_its_unit_cannot_have_is_refused(
    metric: str, unit: str, value: float, bound: str
) -> None:
    one = {"metric": metric, "unit": unit, bound: value, "tolerance": 1}
    with pytest.raises(InputError) as caught:
        read_fit({"scenario": LAB, "free": {DELAY: "100ns..10us:log"}, "observations": [one]}, {})
    (problem,) = caught.value.problems
    assert problem.path == ("observations", 0, bound)
    assert f"found {value:g}{f' {unit}' if unit else ''}, expected 0 " in problem.text


@pytest.mark.parametrize(("unit", "value"), [("%", 0), ("%", 100), ("share", 1), ("share", 0.0)])
def test_the_ends_of_a_share_are_taken(unit: str, value: float) -> None:
    one = {"metric": "goodput_of_ideal", "unit": unit, "value": value, "tolerance": 1}
    asked = read_fit({"scenario": LAB, "free": {DELAY: "100ns..10us:log"}, "observations": [one]}, {})
    assert asked.observed[0].value == (value / 100 if unit == "%" else value)
