"""A storage belongs to one design: the folders of runs there are called after the numbers of its points."""

from __future__ import annotations

import hashlib
import json

from tailback.errors import plain
from tailback.files.storage import Storage
from tailback.scenario import Scenario
from tailback.sweeps.design import Design, canonical
from tailback.sweeps.task import digest_of

OWNER = "design.json"
"""The file of a storage that says which sweep it belongs to."""
_OWNER_BYTES = 1 << 16
_OTHERS = ("sweep.json", "folders", "runs", "summary.parquet")
"""What a sweep leaves in a storage; one of an older version left no `OWNER`."""


def keep_for(storage: Storage, design: Design, base: Scenario) -> None:
    """Marks a storage as that of a design, if it is nobody's.

    `base` is the scenario without the settings of a point: a file that was edited makes another design.

    Raises:
        InputError: it belongs to another design.
        OSError: it cannot be written.
    """
    own = design_hash(design, base)
    kept = storage.get(OWNER, _OWNER_BYTES)
    if kept is None:
        if there := [name for name in _OTHERS if storage.holds(name)]:
            raise _taken(storage, f"{there[0]} of a sweep that left no {OWNER}", own)
        about = {"design": own, "sweep": design.name}
        storage.put(OWNER, (json.dumps(about, sort_keys=True) + "\n").encode())
        return
    try:
        about = json.loads(kept)
        found, name = str(about["design"]), str(about["sweep"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise _taken(storage, f"a {OWNER} that cannot be read", own) from None
    if found != own:
        raise _taken(storage, f"the results of another sweep, {plain(name)} (design {plain(found)})", own)


def design_hash(design: Design, base: Scenario) -> str:
    """A hash of what a sweep runs, whichever build of Tailback runs it, and wherever its results go."""
    asked = canonical(design.model_copy(update={"store": None, "about": "", "scenario": design.name}))
    return hashlib.sha256(f"{asked}\0{digest_of(base, '')}".encode()).hexdigest()[:16]


def _taken(storage: Storage, found: str, own: str) -> Exception:
    return storage.refused(f"found {found}, expected an empty storage or one of this design ({own})")
