"""What a fit gives: words, tables, plain data, its page and its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from tailback import text
from tailback.metrics import Metric
from tailback.study.fit_design import Fit, Output
from tailback.study.inference import MAX_MISS_TOLERANCES, Answer, Inference, Next, Unknown, likely
from tailback.study.points import in_words
from tailback.study.sweep_data import SweepData
from tailback.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

_POSTERIOR_DRAWS = 2000
_NEXT_MEASUREMENTS_SHOWN = 3
_PROFILE_SCHEMA = pa.schema(
    [
        ("setting", pa.string()),
        ("value", pa.float64()),
        ("set", pa.string()),
        ("log_likelihood", pa.float64()),
    ]
)


@dataclass(frozen=True)
class FitData:
    """A fit: what was asked, what was found, and the sweeps that it was found with, by the names of their
    folders.
    """

    asked: Fit
    found: Inference
    rounds: Mapping[str, SweepData]

    @property
    def failed(self) -> list[str]:
        """Runs that gave no result, and runs with a fault: a line for all of a round that say the same."""
        alike: dict[str, list[str]] = {}
        for name, done in self.rounds.items():
            for row in (*done.failed, *done.faulty):
                status = row["status"] if row["status"] != "done" else "fault"
                words = f"{name}: {status}: {row['message'] or row['faults'][0]}"
                run = f"{in_words(done.points[row['point']])}, seed {row['seed']}"
                alike.setdefault(words, []).append(run)
        return [
            f"{words} ({runs[0]}{f'; and {len(runs) - 1:,} more' if len(runs) > 1 else ''})"
            for words, runs in alike.items()
        ]

    @property
    def misses(self) -> list[str]:
        lines = []
        for one in self.found.unknowns:
            if one.at_edge:
                end = "lower" if one.best < 0.5 else "upper"
                lines.append(
                    f"{one.setting}: the best fit lies at the {end} end of its prior, "
                    f"{self._words(one, one.best)}: what was observed may want more than the prior allows."
                )
        for answer in self.found.answers:
            label, shown = self.asked.labelled(answer.observed.output), answer.observed.output.shown
            value = answer.observed.in_words
            if answer.missed and answer.role == "calibrated":
                lines.append(
                    f"{label}: the best fit gives {shown.in_words(answer.at_best)}, observed is {value}: "
                    f"{abs(answer.off):.1f} tolerances off."
                )
            elif answer.missed:
                lines.append(
                    f"{label}: predicted {_interval(shown, answer)}, observed is "
                    f"{answer.observed.with_tolerance}."
                )
        return lines

    @property
    def fits(self) -> bool:
        """Whether the best fit may have given all that was observed and not held out: what it is off is
        little against the tolerances and what seeds do to the lab's runs and to these.
        """
        seeds = len(self.asked.seeds_in_order())
        for one in self.found.answers:
            noise = self.found.noise[one.observed.output] * math.sqrt(1 / one.observed.runs + 1 / seeds)
            spread = math.hypot(1, noise / one.observed.tolerance)
            if one.role == "calibrated" and abs(one.off) > MAX_MISS_TOLERANCES * spread:
                return False
        return True

    def lines(self) -> list[str]:
        known = [one for one in self.found.unknowns if one.verdict == "identified"]
        fitted = [one for one in self.found.answers if one.role == "calibrated"]
        lines = [
            f"{len(known)} of {text.plural(len(self.found.unknowns), 'unknown')} identified by "
            f"{text.plural(len(fitted), 'observation')}."
        ]
        lines += [self._of(one) for one in self.found.unknowns]
        lines += [
            f"{one.one} and {one.other} trade off against each other (correlation {one.correlation:.2f}): "
            "the observations tell them together better than each."
            for one in self.found.trades
        ]
        lines += [f"Miss: {line}" for line in self.misses]
        if not self.fits:
            lines.append(
                "Nothing fits: of the values that the unknowns may have none gives what was observed. "
                "What is said of them and predicted by them holds only if one of them is right."
            )
        for answer in self.found.answers:
            if answer.role == "predicted" and not answer.missed:
                shown = answer.observed.output.shown
                label = self.asked.labelled(answer.observed.output)
                words = f"{_interval(shown, answer)}; observed is {answer.observed.in_words}"
                lines.append(
                    f"Predicted: {label}: {words}: met{'' if self.fits else ', where nothing fits'}."
                )
        without = sum(len(done.failed) for done in self.rounds.values())
        if without:
            every = text.plural(sum(len(done.rows) for done in self.rounds.values()), "run")
            lines.append(f"{without:,} of {every} gave no result: the fit is without them.")
        lines += self._limits()
        lines.append(self._next())
        return lines

    def _of(self, one: Unknown) -> str:
        free = self.asked.free[one.setting]
        name = f"{one.setting} ({free.means})" if free.means else one.setting
        if one.probabilities:
            tells = "not identified" if one.verdict == "not identified" else self._likeliest(one)
            return f"{name}: {tells}. Probability: {self._each(one)} (calibrated)."
        low, high = self._words(one, one.low), self._words(one, one.high)
        if one.verdict == "not identified":
            ends = f"{self._words(one, 0)} to {self._words(one, 1)}"
            return f"{name}: not identified. Nearly all of its prior, {ends}, fits about as well."
        limit = "" if one.verdict == "identified" else f"; {one.verdict}"
        return f"{name}: {self._words(one, one.median)}, 90 % interval {low} to {high}{limit} (calibrated)."

    def _likeliest(self, one: Unknown) -> str:
        """'true', or 'lru or fifo; the others have less than 10 % together'."""
        values = [self._value(one, value) for value in likely(one.probabilities)]
        if len(values) == 1:
            return values[0]
        rest = "the others have less than 10 % together"
        return f"{', '.join(values[:-1])} or {values[-1]}; {rest}"

    def _each(self, one: Unknown) -> str:
        """'true 99.2 %, false 0.8 %', the likeliest first."""
        order = sorted(enumerate(one.probabilities), key=lambda pair: -pair[1])
        return ", ".join(f"{self._value(one, value)} {_percent(share)}" for value, share in order)

    def _value(self, one: Unknown, number: int) -> str:
        return self._words(one, (number + 0.5) / len(one.probabilities))

    def _limits(self) -> list[str]:
        """Where it is not the lab's tolerance that limits the fit."""
        noisy, rough = [], []
        for one in self.found.answers:
            output, tolerance = one.observed.output, one.observed.tolerance
            noise = self.found.noise[output] / math.sqrt(one.observed.runs)
            left_out = self.found.left_out[output]
            words = f"{self.asked.labelled(output)} (± {{}})"
            if noise > tolerance:
                noisy.append(words.format(output.shown.in_words(noise)))
            if left_out > math.hypot(tolerance, noise):
                rough.append(words.format(output.shown.in_words(left_out)))
        lines = []
        if noisy:
            lines.append(
                f"Seeds alone move by more than the tolerance: {', '.join(noisy)}. "
                "A mean over several runs of the lab would say more."
            )
        if rough:
            lines.append(
                f"The emulator is not as exact as the lab: {', '.join(rough)}, where points are left out. "
                "More points or seeds would make the fit sharper."
            )
        return lines

    def _next(self) -> str:
        if not self.found.next:
            return "Of the metrics that runs give, none would make the unknowns much more certain."
        first = self.found.next[0]
        rest = ", ".join(
            f"{self.asked.labelled(one.output)} ({100 * one.reduction:.0f} %)"
            for one in self.found.next[1:_NEXT_MEASUREMENTS_SHOWN]
        )
        return (
            f"Measure next: {self.asked.labelled(first.output)}, to ± {self._tolerance(first)}. It should "
            f"take away {100 * first.reduction:.0f} % of the variance that is left"
            f"{f'; then {rest}' if rest else ''}."
        )

    def _tolerance(self, one: Next) -> str:
        return one.output.shown.in_words(one.tolerance)

    def _words(self, one: Unknown, share: float) -> str:
        return self.asked.free[one.setting].words(share)

    def tables(self) -> list[Table]:
        from rich.table import Table

        made = []
        for head, rows in ((UNKNOWN_HEAD, self.unknown_rows()), (ANSWER_HEAD, self.answer_rows())):
            table = Table(box=None, padding=(0, 2, 0, 0))
            for name in head:
                table.add_column(name, overflow="fold")
            for row in rows:
                table.add_row(*row)
            made.append(table)
        return made

    def unknown_rows(self) -> list[list[str]]:
        return [
            [
                one.setting,
                self.asked.free[one.setting].prior,
                self._words(one, one.best),
                self._each(one)
                if one.probabilities
                else f"{self._words(one, one.low)} to {self._words(one, one.high)}",
                one.verdict,
            ]
            for one in self.found.unknowns
        ]

    def answer_rows(self) -> list[list[str]]:
        rows = []
        for one in self.found.answers:
            shown = one.observed.output.shown
            rows.append(
                [
                    self.asked.labelled(one.observed.output),
                    one.observed.with_tolerance,
                    shown.in_words(one.at_best),
                    _interval(shown, one),
                    one.role,
                    "missed" if one.missed else "met",
                ]
            )
        return rows

    def set_lines(self) -> list[str]:
        return [
            f"--set {one.setting}={self.asked.free[one.setting].setting(one.best)}"
            for one in self.found.unknowns
        ]

    def data(self) -> dict[str, Any]:
        return {
            "tailback": __version__,
            "scenario": self.asked.scenario,
            "runs": sum(len(done.rows) for done in self.rounds.values()),
            "failed": self.failed,
            "unknowns": [self._unknown_data(one) for one in self.found.unknowns],
            "trades": [one._asdict() for one in self.found.trades],
            "observations": [self._answer_data(one) for one in self.found.answers],
            "misses": self.misses,
            "next": [
                {
                    **self._output_data(one.output),
                    "assumed_tolerance": one.tolerance,
                    "variance_taken_away": one.reduction,
                    "of_each": dict(zip(self.asked.free, one.each, strict=True)),
                }
                for one in self.found.next
            ],
            "best_fit": {
                one.setting: self.asked.free[one.setting].setting(one.best) for one in self.found.unknowns
            },
            "lines": self.lines(),
        }

    def _unknown_data(self, one: Unknown) -> dict[str, Any]:
        free = self.asked.free[one.setting]
        data = {
            "setting": one.setting,
            "means": free.means,
            "prior": free.prior_data,
            "role": "calibrated",
            "verdict": one.verdict,
            "best": free.setting(one.best),
        }
        if one.probabilities:
            each = enumerate(one.probabilities)
            return {**data, "probabilities": {self._value(one, value): share for value, share in each}}
        low, high = one.profile.interval()
        return {
            **data,
            "median": free.setting(one.median),
            "interval_90": [free.setting(one.low), free.setting(one.high)],
            "profile_90": [free.setting(low), free.setting(high)],
            "at_edge": one.at_edge,
        }

    def _answer_data(self, one: Answer) -> dict[str, Any]:
        return {
            **self._output_data(one.observed.output),
            "role": one.role,
            "value": one.observed.value,
            "bound": one.observed.bound,
            "tolerance": one.observed.tolerance,
            "mean": one.mean,
            "interval_90": [one.low, one.high],
            "at_best_fit": one.at_best,
            "tolerances_off": one.off,
            "runs": one.observed.runs,
            "noise_of_a_run": self.found.noise[one.observed.output],
            "emulator_misses": self.found.left_out[one.observed.output],
            "verdict": "missed" if one.missed else "met",
        }

    def _output_data(self, output: Output) -> dict[str, Any]:
        return {
            "measure": output.shown.label,
            "unit": output.shown.unit,
            "set": self.asked.conditions[output.condition],
        }

    @property
    def draws(self) -> pa.Table:
        """Equally likely draws of the posterior: a column each setting, in s, B, bit/s, Hz or no unit; of a
        list the value as after --set.
        """
        points = self.found.posterior.drawn(_POSTERIOR_DRAWS)
        return pa.table(
            {
                setting: [free.value(share) for share in points[:, index].tolist()]
                for index, (setting, free) in enumerate(self.asked.free.items())
            }
        )

    @property
    def profiles(self) -> pa.Table:
        """A row a value of a setting: the best log likelihood with it, less that of the best fit. `value` is
        a number, and empty of a list; `set` is the value as after --set.
        """
        rows = [
            {
                "setting": one.setting,
                "value": None if one.probabilities else self.asked.free[one.setting].value(share),
                "set": self.asked.free[one.setting].setting(share),
                "log_likelihood": log,
            }
            for one in self.found.unknowns
            for share, log in zip(*(np.asarray(part).tolist() for part in one.profile), strict=True)
        ]
        return pa.Table.from_pylist(rows, _PROFILE_SCHEMA)

    @property
    def observations(self) -> pa.Table:
        """A row an observation: what was observed and what the fit says, in base units, and which of the two
        it is, calibrated or predicted.
        """
        rows = [self._answer_data(one) for one in self.found.answers]
        for row in rows:
            row["low"], row["high"] = row.pop("interval_90")
            row["set"] = ", ".join(f"{setting}={value}" for setting, value in row["set"].items())
        return pa.Table.from_pylist(rows)

    def __repr__(self) -> str:
        known = sum(one.verdict == "identified" for one in self.found.unknowns)
        count = text.plural(len(self.found.unknowns), "unknown")
        missed = f", {len(self.misses)} missed" if self.misses else ""
        return f"<Fit of {self.asked.name.removesuffix('-fit')}: {known} of {count} identified{missed}>"


UNKNOWN_HEAD = ("Unknown", "Prior", "Best fit", "90 % interval, or probability", "Verdict")
ANSWER_HEAD = ("Observation", "Observed", "At the best fit", "90 % interval", "Role", "Verdict")


def _percent(share: float) -> str:
    """'99.2 %'; what is nearly nothing, or nearly all, is not rounded to it."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if 0.999 < share < 1 else f"{100 * share:.1f} %"


def _interval(shown: Metric, one: Answer) -> str:
    return f"{shown.in_words(one.low)} to {shown.in_words(one.high)}"
