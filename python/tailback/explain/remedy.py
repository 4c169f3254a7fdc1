"""A change that may help a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailback.explain.stages import Figure

Plan = dict[str, Any]
Edit = Callable[[Plan], Plan]


@dataclass(frozen=True)
class Remedy:
    """A change that may help."""

    kind: str
    """The kind of thing it changes, which is the `kind` of an answer: link, memory, routing, ecn."""
    name: str
    """Its name in the list of changes tried: `adaptive routing`."""
    says: str
    """The advice, as a sentence that begins with a verb."""
    sets: tuple[str, ...] = ()
    """The change as settings, PATH=VALUE each, as after `--set`."""
    edit: Edit | None = None
    """The change of the plan, where no setting says it."""
    where: str = ""
    """The place or group that it changes."""
    why: str = ""
    """The cause that it shows if it helps, as a sentence."""
    headline: str = ""
    """The same in a few words: `flows collide on one link while another idles`."""
    figures: tuple[Figure, ...] = ()
    """The figures that show the cause."""
    repairs: bool = False
    """True if it ends something broken or badly set, so that a gain beyond a factor of two is its own."""
    singles: Mapping[str, Remedy] = field(default_factory=dict)
    """Of a group, the same for each of its members, by place."""

    @property
    def is_setting(self) -> bool:
        """True if somebody can make it without hardware that is twice as fast, or that loses nothing."""
        return bool(self.says) or (self.repairs and self.kind != "loss")
