"""Settings of a congestion point, from a YAML file and `--set`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tailback.errors import InputError, Problem, found, one_of
from tailback.files import read_file
from tailback.limits import SCENARIO_BYTES
from tailback.scenario import declared
from tailback.scenario.document import Document, from_yaml
from tailback.scenario.fields import Priority, Section, like
from tailback.units import DURATION, RATE, SIZE

Delay = Annotated[int, DURATION.between(maximum="10s")]
Bytes = Annotated[int, SIZE.between(maximum="1GiB")]
Rate = Annotated[int, RATE.between("1Kbps", "1Tbps")]
Share = Annotated[float, Field(ge=0, le=1)]


def _refuse(expected: str) -> PydanticCustomError:
    return PydanticCustomError("found_expected", "{expected}", {"expected": expected})


class Ecn(Section):
    """ECN marking between two thresholds, as in RoCE switches."""

    k_min: Bytes
    k_max: Bytes
    p_max: Share = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Ecn:
        if self.k_min > self.k_max:
            raise _refuse("k_min at most k_max")
        return self


class Pfc(Section):
    """Sends pauses, and honours received ones."""

    xoff: Bytes
    xon: Bytes
    priority: Priority = 3
    quanta: int = like(declared.Pause, "quanta")

    @model_validator(mode="after")
    def _ordered(self) -> Pfc:
        if self.xon >= self.xoff:
            raise _refuse("xon below xoff")
        return self


class Event(Section):
    """An action on one request of a queue pair."""

    action: Literal["drop", "mark", "corrupt", "delay", "reorder"]
    direction: Literal["forward", "back"] | None = None
    qp: Annotated[int, Field(ge=0, le=0xFFFFFF)] | None = None
    nth: Annotated[int, Field(ge=1)] | None = None
    psn: Annotated[int, Field(ge=0, le=0xFFFFFF)] | None = None
    delay: Delay = 0
    packets: Annotated[int, Field(ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _names_a_packet(self) -> Event:
        if self.nth is None and self.psn is None:
            raise _refuse("nth or psn, which say of which packet it is")
        if self.action == "delay" and not self.delay:
            raise _refuse("delay, which says how long")
        return self


class PointSettings(Section):
    """A congestion point. Settings apply to both directions."""

    rate: Rate = 1_000_000_000
    delay: Delay = 0
    buffer: Bytes = 1_000_000
    ecn: Ecn | None = None
    pfc: Pfc | None = None
    loss: Share = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    events: Annotated[tuple[Event, ...], Field(max_length=10_000, strict=False)] = ()

    def for_engine(self) -> str:
        """JSON for the engine."""
        ecn, pfc = self.ecn, self.pfc
        directions = {None: None, "forward": 0, "back": 1}
        plan = {
            "rate_bps": self.rate,
            "delay_ps": self.delay,
            "buffer_bytes": self.buffer,
            "ecn": ecn and {"k_min_bytes": ecn.k_min, "k_max_bytes": ecn.k_max, "p_max": ecn.p_max},
            "pfc": pfc
            and {
                "xoff_bytes": pfc.xoff,
                "xon_bytes": pfc.xon,
                "priority": pfc.priority,
                "quanta": pfc.quanta,
            },
            "loss": self.loss,
            "seed": self.seed,
            "events": [
                {
                    "action": event.action,
                    "direction": directions[event.direction],
                    "qp": event.qp,
                    "nth": event.nth,
                    "psn": event.psn,
                    "delay_ps": event.delay,
                    "packets": event.packets,
                }
                for event in self.events
            ],
        }
        return json.dumps(plan)

    def as_yaml(self) -> str:
        """A YAML file with these settings."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def read(file: Path | None, sets: Sequence[str] = ()) -> PointSettings:
    """Reads a file, or the defaults, applies `sets` such as `ecn.k_min=20KB`, and checks the result.

    Raises:
        InputError: has all problems, one line each.
    """
    document = Document({}) if file is None else from_yaml(_text(file), str(file))
    if document.data is None:
        document.data = {}
    for setting in sets:
        path, equals, text = setting.partition("=")
        parts = tuple(int(part) if part.isdigit() else part for part in path.split("."))
        if not equals or not all(str(part) for part in parts):
            raise InputError.at("--set", f"found {setting!r}, expected path=value")
        document.put(parts, from_yaml(text, "--set", lines=False))
    try:
        return PointSettings.model_validate(document.data)
    except ValidationError as error:
        problems = [_problem(one, document) for one in error.errors(include_url=False)]
        raise InputError(problems) from None


def _text(file: Path) -> bytes:
    try:
        return read_file(str(file), SCENARIO_BYTES)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError.at(str(file), f"found {reason}, expected a file") from None


_MODEL_OF_SECTION: dict[str, type[Section]] = {"ecn": Ecn, "pfc": Pfc, "events": Event}


def _problem(details: Any, document: Document) -> Problem:
    path, context = tuple(details["loc"]), details.get("ctx", {})
    if details["type"] == "extra_forbidden":
        model = _MODEL_OF_SECTION.get(str(path[0]), PointSettings) if len(path) > 1 else PointSettings
        text = f"found an unknown field, expected {one_of(path[-1], model.model_fields)}"
    elif details["type"] == "missing":
        text = "found nothing, expected a value"
    elif details["type"] == "found_expected":
        text = f"found {found(details['input'])}, expected {context['expected']}"
    else:
        expected = details["msg"].removeprefix("Input should be ").replace("'", "")
        text = f"found {found(details['input'])}, expected {expected}"
    return Problem(document.origin(path), path, text)
