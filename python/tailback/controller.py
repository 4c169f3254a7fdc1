"""Congestion controllers in Python: for prototypes.

A controller hears what the built-in ones hear and answers what they answer. There is one for each queue pair,
and all are called in the order of simulated time: the same scenario, seed and class give the same results.

    class Halve(tailback.Controller):
        uses = ("acks",)

        def on_ack(self, ack):
            self.rate = max(self.rate / 2, 1e9) if ack.marked else min(self.rate + 1e7, self.link.rate)

    tailback.run("cc-incast", controllers={"halve": Halve})
"""

from __future__ import annotations

import inspect
import sys
import traceback
import types
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

from tailback import start_up

if TYPE_CHECKING:
    from tailback._engine import Ack, ControllerError

USES = ("acks", "each_ack", "delay", "hop_count", "telemetry", "cnps", "window", "timer")
_HEARS = ("on_sent", "on_ack", "on_cnp", "on_loss", "on_timeout", "peek")
_NEEDS = {"acks": "on_ack", "cnps": "on_cnp", "timer": "on_timeout"}
"""What a NIC tells only those that use it, and where."""
_MOST_TELEMETRY_BYTES = 1024
FORM = "FILE.py:CLASS"
"""How a class in a file is named."""


class Link(NamedTuple):
    """What is known of a queue pair's link and packets before it begins."""

    rate: float
    """Rate of the sender's link, bit/s."""
    mtu: int
    """Payload of a full packet, bytes."""


class Controller:
    """The congestion control of one queue pair. Times are whole picoseconds since the start of the run.

    After each call the engine reads `rate`, `window` and `next_timeout`. An exception, a rate that is not
    above 0 and up to the link's, a window below 0 and a time that has passed end the run with one line.
    """

    uses: ClassVar[Collection[str]] = ()
    """What it uses of a NIC: `acks` (it hears acknowledgements), `each_ack` (of every packet), `delay` (it
    acts on `rtt`: the log of signals has each), `hop_count`, `telemetry` (switches write their load into
    packets), `cnps` (receivers answer CE marks with CNPs), `window`, `timer`. What is not named costs
    nothing.
    """
    telemetry_bytes: ClassVar[int] = 0
    """What it adds to each data packet and each answer."""
    signals: ClassVar[Mapping[str, str]] = {}
    """Attributes that become time series, with what they say. Names end with their unit: `window_bytes`."""

    rate: float
    """Rate that paces the queue pair, bit/s."""
    window: int | None = None
    """Bytes that may be in flight; None: no limit. A packet goes while less than that is; at 0 none does,
    until the window opens again in `on_timeout` or `on_ack`."""
    next_timeout: int | None = None
    """When `on_timeout` is to be called; None: never."""

    def __init__(self, link: Link) -> None:
        """A new queue pair, at line rate."""
        self.link = link
        self.rate = link.rate

    def on_sent(self, now: int, payload: int) -> None:
        """A packet with `payload` bytes is being sent; `rate` then paces the next one."""

    def on_ack(self, ack: Ack) -> None:
        """An acknowledgement arrived, or a NAK, which acknowledges what came before the gap."""

    def on_cnp(self, now: int) -> None:
        """A CNP arrived."""

    def on_loss(self, now: int, kind: str) -> None:
        """A loss was noticed, by a `nak` or a `timeout`; the queue pair goes back."""

    def on_timeout(self, now: int) -> None:
        """The time `next_timeout` has come; the next one must be later, or None."""

    def peek(self, now: int) -> Controller:
        """The controller as it would be if an input came now, for the recorder; must not change this one."""
        return self


Factory = Callable[[Link], Controller]
"""A subclass of `Controller`, or what makes one, such as `functools.partial(Mine, gain=2)`."""


@final
class Checked(NamedTuple):
    """What the engine is given of a controller."""

    name: str
    make: Callable[[float, int], Controller]
    kind: type[Controller]
    uses: dict[str, bool]
    telemetry_bytes: int
    signals: list[tuple[str, str]]
    hears: list[bool]


def checked(name: str, factory: Any) -> Checked:
    """What the engine needs to know of a controller.

    Raises:
        ValueError: in one line, what is wrong with it.
    """
    kind = getattr(factory, "func", factory)
    if not (isinstance(kind, type) and issubclass(kind, Controller)):
        raise ValueError(f"found {kind!r}, expected a subclass of tailback.Controller")
    if isinstance(kind.uses, str) or any(one not in USES for one in kind.uses):
        found = next((one for one in kind.uses if one not in USES), "")
        found = kind.uses if isinstance(kind.uses, str) else found
        raise ValueError(f'{kind.__name__}.uses: found "{found}", expected a tuple of {", ".join(USES)}')
    extra = kind.telemetry_bytes
    if type(extra) is not int or not 0 <= extra <= _MOST_TELEMETRY_BYTES:
        expected = f"a whole number up to {_MOST_TELEMETRY_BYTES}"
        raise ValueError(f"{kind.__name__}.telemetry_bytes: found {extra!r}, expected {expected}")
    uses = {one: one in kind.uses for one in USES}
    uses["acks"] |= (
        uses["each_ack"] or uses["delay"] or uses["hop_count"] or uses["telemetry"] or uses["window"]
    )
    hears = [getattr(kind, one) is not getattr(Controller, one) for one in _HEARS]
    for needed, heard in _NEEDS.items():
        if hears[_HEARS.index(heard)] and not uses[needed]:
            raise ValueError(f'{kind.__name__}.uses: found no "{needed}", expected it with {heard}')
    # Nobody would take a deadline away.
    hears[_HEARS.index("on_timeout")] = True
    signals = [(str(signal), str(about)) for signal, about in kind.signals.items()]
    make = lambda rate, mtu: factory(Link(rate, mtu))  # noqa: E731
    return Checked(name, make, kind, uses, extra, signals, hears)


def split(text: str) -> tuple[str, str]:
    """File and class of `FILE.py:CLASS`.

    Raises:
        ValueError: it is something else.
    """
    path, separator, name = text.rpartition(":")
    if not separator or not path.endswith(".py") or not name.isidentifier():
        raise ValueError(f'found "{text}", expected {FORM}')
    return path, name


def from_source(source: bytes, path: str, name: str) -> Any:
    """The class of this name in the text of a file, which is executed.

    Raises:
        ValueError: in one line, why there is none.
    """
    module = types.ModuleType(f"tailback_controller_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses look for it
    start_up.show_pandas()
    try:
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        raise ValueError(f"found {error.msg} in line {error.lineno} of {path}, expected Python") from None
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"found {why} ({frame.filename}:{frame.lineno}), expected {path} to run") from None
    if not hasattr(module, name):
        kinds = [
            one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Controller)
        ]
        there = ", ".join(kind.__name__ for kind in kinds if kind is not Controller) or "none"
        raise ValueError(f"found no class {name} in {path}, expected one of its controllers: {there}")
    return getattr(module, name)


def source_of(factory: Any) -> str | None:
    """`FILE.py:CLASS` of a class, where loading that file again would give it; else None."""
    if not isinstance(factory, type) or "." in factory.__qualname__:
        return None
    try:
        file = inspect.getsourcefile(factory)
    except TypeError:  # it was typed in
        return None
    if file is None or not file.endswith(".py") or not Path(file).is_file():
        return None
    return f"{Path(file).absolute()}:{factory.__name__}"


def failure(error: ControllerError, kind: type[Controller]) -> tuple[str, str]:
    """Where a controller failed (`file:line`), and how, in one line."""
    name, queue_pair, function, what = error.args
    frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
    code = getattr(getattr(kind, function, None), "__code__", None)
    if frames:
        place = f"{_near(frames[-1].filename)}:{frames[-1].lineno}"
    else:
        place = f"{_near(code.co_filename)}:{code.co_firstlineno}" if code else ""
    who = f"controller {name}, class {kind.__name__}, queue pair {queue_pair}"
    told = f"{function} {what}" if error.__cause__ else f"after {function}, {what}"
    return place, " ".join(f"{who}: {told}".split())


def _near(file: str) -> str:
    """A file below the working directory by its name from there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
