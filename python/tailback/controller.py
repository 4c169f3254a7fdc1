"""Congestion controllers in Python: for prototypes.

A controller gets the inputs of the built-in ones and sets the same outputs. Each queue pair has its own, and all
are called in the order of simulated time: the same scenario, seed and class give the same results.

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

USABLE_INPUTS = ("acks", "each_ack", "delay", "hop_count", "telemetry", "cnps", "window", "timer")
_CONTROLLER_METHODS = ("on_sent", "on_ack", "on_cnp", "on_loss", "on_timeout", "peek")
_METHOD_OF_USE = {"acks": "on_ack", "cnps": "on_cnp", "timer": "on_timeout"}
"""Methods that the engine calls only for controllers whose `uses` name the input."""
_MAX_TELEMETRY_BYTES = 1024
CLASS_IN_FILE_FORM = "FILE.py:CLASS"


class Link(NamedTuple):
    """The sender's link and packet size, known before the queue pair begins."""

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
    """Inputs and outputs that the controller uses: `acks` (acknowledgements), `each_ack` (one for every packet),
    `delay` (it acts on `rtt`, which the log of signals then holds), `hop_count`, `telemetry` (switches write
    their load into packets), `cnps` (receivers answer CE marks with CNPs), `window`, `timer`. What is not
    named costs nothing.
    """
    telemetry_bytes: ClassVar[int] = 0
    """Bytes that telemetry adds to each data packet and each acknowledgement."""
    signals: ClassVar[Mapping[str, str]] = {}
    """Attributes that become time series, with a description. Names end with their unit: `window_bytes`."""

    rate: float
    """Rate that paces the queue pair, bit/s."""
    window: int | None = None
    """Bytes that may be in flight; None: no limit. A packet is sent while fewer are in flight; at 0 none is,
    until `on_timeout` or `on_ack` opens the window again."""
    next_timeout: int | None = None
    """Time of the next `on_timeout`; None: never."""

    def __init__(self, link: Link) -> None:
        """A new queue pair starts at line rate."""
        self.link = link
        self.rate = link.rate

    def on_sent(self, now: int, payload: int) -> None:
        """A packet with `payload` bytes is being sent; `rate` then paces the next one."""

    def on_ack(self, ack: Ack) -> None:
        """An ACK arrived, or a NAK, which acknowledges all packets before the gap."""

    def on_cnp(self, now: int) -> None:
        """A CNP arrived."""

    def on_loss(self, now: int, kind: str) -> None:
        """A `nak` or a `timeout` showed a loss; the queue pair retransmits from the lost packet."""

    def on_timeout(self, now: int) -> None:
        """`next_timeout` was reached; the next one must be later, or None."""

    def peek(self, now: int) -> Controller:
        """The controller as an input at `now` would find it, for the recorder; must not change this one."""
        return self


Factory = Callable[[Link], Controller]
"""A subclass of `Controller`, or a callable that makes one, such as `functools.partial(Mine, gain=2)`."""


@final
class Checked(NamedTuple):
    """A controller as the engine takes it."""

    name: str
    make: Callable[[float, int], Controller]
    kind: type[Controller]
    uses: dict[str, bool]
    telemetry_bytes: int
    signals: list[tuple[str, str]]
    hears: list[bool]
    """For each of `_CONTROLLER_METHODS`: True if the engine is to call it."""


def checked(name: str, factory: Any) -> Checked:
    """Checks a controller and describes it for the engine.

    Raises:
        ValueError: the controller cannot be used; the text is one line.
    """
    kind = getattr(factory, "func", factory)
    if not (isinstance(kind, type) and issubclass(kind, Controller)):
        raise ValueError(f"found {kind!r}, expected a subclass of tailback.Controller")
    if isinstance(kind.uses, str) or any(one not in USABLE_INPUTS for one in kind.uses):
        found = next((one for one in kind.uses if one not in USABLE_INPUTS), "")
        found = kind.uses if isinstance(kind.uses, str) else found
        raise ValueError(
            f'{kind.__name__}.uses: found "{found}", expected a tuple of {", ".join(USABLE_INPUTS)}'
        )
    extra = kind.telemetry_bytes
    if type(extra) is not int or not 0 <= extra <= _MAX_TELEMETRY_BYTES:
        expected = f"a whole number up to {_MAX_TELEMETRY_BYTES}"
        raise ValueError(f"{kind.__name__}.telemetry_bytes: found {extra!r}, expected {expected}")
    uses = {one: one in kind.uses for one in USABLE_INPUTS}
    uses["acks"] |= (
        uses["each_ack"] or uses["delay"] or uses["hop_count"] or uses["telemetry"] or uses["window"]
    )
    hears = [getattr(kind, one) is not getattr(Controller, one) for one in _CONTROLLER_METHODS]
    for needed, method in _METHOD_OF_USE.items():
        if hears[_CONTROLLER_METHODS.index(method)] and not uses[needed]:
            raise ValueError(f'{kind.__name__}.uses: found no "{needed}", expected it with {method}')
    # A controller may set `next_timeout` without a method of its own: the engine must call to clear it.
    hears[_CONTROLLER_METHODS.index("on_timeout")] = True
    signals = [(str(signal), str(about)) for signal, about in kind.signals.items()]
    make = lambda rate, mtu: factory(Link(rate, mtu))  # noqa: E731
    return Checked(name, make, kind, uses, extra, signals, hears)


def split(text: str) -> tuple[str, str]:
    """File and class of `FILE.py:CLASS`.

    Raises:
        ValueError: the text has another form.
    """
    path, separator, name = text.rpartition(":")
    if not separator or not path.endswith(".py") or not name.isidentifier():
        raise ValueError(f'found "{text}", expected {CLASS_IN_FILE_FORM}')
    return path, name


def from_source(source: bytes, path: str, name: str) -> Any:
    """Executes the text of a file and returns its class of this name.

    Raises:
        ValueError: the file cannot be executed, or has no such class; the text is one line.
    """
    module = types.ModuleType(f"tailback_controller_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look there
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
    """`FILE.py:CLASS` of a class, if loading that file again would give the class; else None."""
    if not isinstance(factory, type) or "." in factory.__qualname__:
        return None
    try:
        file = inspect.getsourcefile(factory)
    except TypeError:  # defined in an interactive session
        return None
    if file is None or not file.endswith(".py") or not Path(file).is_file():
        return None
    return f"{Path(file).absolute()}:{factory.__name__}"


def failure(error: ControllerError, kind: type[Controller]) -> tuple[str, str]:
    """Place (`file:line`) and description, in one line, of an error in a controller."""
    name, queue_pair, function, what = error.args
    frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
    code = getattr(getattr(kind, function, None), "__code__", None)
    if frames:
        place = f"{_relative(frames[-1].filename)}:{frames[-1].lineno}"
    else:
        place = f"{_relative(code.co_filename)}:{code.co_firstlineno}" if code else ""
    who = f"controller {name}, class {kind.__name__}, queue pair {queue_pair}"
    error_text = f"{function} {what}" if error.__cause__ else f"after {function}, {what}"
    return place, " ".join(f"{who}: {error_text}".split())


def _relative(file: str) -> str:
    """The path relative to the working directory, where it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
