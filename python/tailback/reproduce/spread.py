"""Claims predicted with calibrated constants at either end of what their calibration leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailback.recorded.run import Recorded
from tailback.reproduce.experiments import Check, Experiment
from tailback.reproduce.outcome import Measured, Reproduction, Spread

Values = dict[tuple[str, int], float]
"""By claim and number of the check: the measure on one run."""
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A scenario with its overrides."""


@dataclass
class End:
    """A run with a constant at one end, and the checks that are measured on it."""

    title: str
    key: Key
    checks: dict[tuple[str, int], Check] = field(default_factory=dict)

    def measure(self, result: Recorded) -> Values | None:
        """Measured values; None where the run was cut short."""
        if not result.complete:
            return None
        return {key: check.on(result) for key, check in self.checks.items()}


def ends(done: Reproduction) -> list[End]:
    """The runs that spreads take, each once. A quick reproduction has none: it is a first look."""
    known = set(_runs(done.experiment))
    found: dict[Key, End] = {}
    for one, claim in [] if done.quick else done.experiment.carried():
        for value in one.between:
            for number, check in enumerate(claim.checks):
                for name in check.runs(claim.run):
                    key = _key(done.experiment, name, one.at(value, name))
                    if key not in known:
                        end = found.setdefault(key, End(f"{name}, {one.path} {value}", key))
                        end.checks[claim.id, number] = check
    return list(found.values())


def spreads_of(done: Reproduction, measured: Sequence[tuple[End, Values | None]]) -> dict[str, list[Spread]]:
    """By claim: its spreads. One of which a run did not come to its end is left out."""
    known = {end.key: values for end, values in measured}
    done.interrupted |= None in known.values()
    runs = _runs(done.experiment)
    found: dict[str, list[Spread]] = {}
    for one, claim in [] if done.quick else done.experiment.carried():
        both = []
        for value in one.between:
            end = []
            for number, check in enumerate(claim.checks):
                parts = []
                for name in check.runs(claim.run):
                    key = _key(done.experiment, name, one.at(value, name))
                    if key in runs:
                        result = done.results.get(runs[key])
                        parts += [check.on(result)] if result is not None and result.complete else []
                    elif (values := known[key]) is not None:
                        parts.append(values[claim.id, number])
                if len(parts) == len(check.runs(claim.run)):
                    end.append(Measured(check, check.relative(parts)))
            both.append(end)
        if all(len(end) == len(claim.checks) for end in both):
            found.setdefault(claim.id, []).append(Spread(one, both))
    return found


def _runs(experiment: Experiment) -> dict[Key, str]:
    return {_key(experiment, name, {}): name for name in experiment.runs}


def _key(experiment: Experiment, name: str, sets: dict[str, str]) -> Key:
    run = experiment.runs[name]
    return run.scenario, tuple(sorted({**run.overrides(False), **sets}.items()))
