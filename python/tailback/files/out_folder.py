"""The folder that a result goes to: claimed before a run, and filled at its end, so that it is whole or not
there.

A claim makes the folder and locks it, so that no second run writes there; the lock ends with the process,
however that ends. What is written goes to a hidden folder on the same file system first
(`.NAME.XXXXXXXX.writing` beside the folder, or `.XXXXXXXX.writing` inside one that was there before, which
may be a mount point or where somebody stands). When all of it is on the disk, one rename puts it in place;
or, inside, a rename a file, `summary.json` last and, of an older result, first away. So a folder with
`summary.json` is whole, and one without it is not a result.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Literal

SUMMARY_FILE = "summary.json"
"""The file that tells a whole result: the last that comes, and the first that goes."""
_WRITING, _ASIDE, _REPLACED = ".writing", ".old", ".replaced"
RESULT_MARKERS = {
    SUMMARY_FILE,
    "asked.json",
    "journal.jsonl",
    "reproduce.json",
    "seeds.json",
    "sweep.json",
    "tune.json",
}
"""Files that tell the result of a command: one of them is in each."""
RESULT_NAMES = RESULT_MARKERS | {
    "astra.json",
    "capture.pcapng",
    "config.txt",
    "counters.json",
    "entities.parquet",
    "events.json",
    "fit.html",
    "fit.json",
    "flow.txt",
    "flows.parquet",
    "folders",
    "groups.json",
    "inputs",
    "logical.json",
    "means.parquet",
    "observations.parquet",
    "plan.json",
    "point.yaml",
    "posterior.parquet",
    "profiles.parquet",
    "report.html",
    "reproduce.html",
    "runs",
    "scenario.yaml",
    "series.parquet",
    "signals.parquet",
    "simai.json",
    "summary.parquet",
    "sweep.html",
    "system.json",
    "timing.json",
    "topology.txt",
    "trace.json",
    "trace.txt",
    "trials.parquet",
    "tune.html",
    "tuned.json",
    "workload.txt",
}
"""What is directly in the folder of a result, but for folders of seeds and other simulators' outputs."""
_SEED = re.compile(r"seed-\d+")
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS)
"""What a file system says that cannot lock a folder, such as NFS."""

MayBe = Literal["absent", "empty", "result", "any"]


class Occupied(FileExistsError):  # noqa: N818  it is what was found
    """The folder cannot be had; the text says what was found there."""


class OutFolder(AbstractContextManager["OutFolder"]):
    """A folder that is claimed. At the end of its context the claim is given up; what is empty goes."""

    def __init__(self, given: Path, made: list[Path], lock: int) -> None:
        """As `claim` found it: `made` are the folders that were not there before, the outermost first."""
        self.given = given
        self.path = given.resolve()  # "." has a parent, too
        self._made = made
        self._lock = lock
        self._held: Path | None = None
        self._cut: list[Path] = []
        """What a process left here that was killed while it put a result in the place of an older one."""

    @property
    def made(self) -> list[Path]:
        """The folders that the claim made, the innermost first."""
        return list(reversed(self._made))

    def held(self) -> Path:
        """A hidden folder for files that grow during the run: they are in place with all others, or gone.

        Raises:
            OSError: it cannot be made.
        """
        if self._held is None:
            self._held = self._new_work()
        return self._held

    def grown(self) -> set[str]:
        """Names of the files that are there so far."""
        return {path.name for path in self._held.iterdir()} if self._held else set()

    def fill(self, write: Callable[[Path], None]) -> None:
        """Lets `write` write all files of a result into a folder, and puts them in place.

        Raises:
            OSError: it names this folder. Nothing new is in it then, and what was there still is.
                A result that is whole and only could not be put in place is kept; the text says where.
        """
        work, names, whole = self._new_work(), set[str](), False
        try:
            write(work)
            for grown in self._held.iterdir() if self._held else ():
                sync(grown)
                grown.rename(work / grown.name)
            sync(work)
            names = {path.name for path in work.iterdir()}
            if self._made:
                work.rename(self.path)
                with suppress(OSError):  # it is there, and whole
                    sync(self.path.parent)
            else:
                self._move_in(work)
        except OSError as error:
            with suppress(OSError):
                whole = bool(names) and names <= {path.name for path in work.iterdir()}
            if not whole:
                shutil.rmtree(work, ignore_errors=True)
            raise self._named(error, f"; the whole result is in {work}" if whole else "") from None
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        for done in (work, *self._cut):  # with an older result
            shutil.rmtree(done, ignore_errors=True)

    def _move_in(self, work: Path) -> None:
        """Puts what was written in the place of what is there; or, when that fails, all back."""
        aside = work / _ASIDE
        old = [path for path in self.path.iterdir() if path.suffix != _WRITING]
        new = list(work.iterdir())
        aside.mkdir()
        moves = [(path, aside / path.name) for path in sorted(old, key=_place, reverse=True)]
        moves += [(path, self.path / path.name) for path in sorted(new, key=_place)]
        try:
            for source, target in moves:
                if source == work / SUMMARY_FILE:
                    sync(self.path)
                source.rename(target)
        except BaseException:
            for source, target in reversed(moves):
                if target.exists() and not source.exists():
                    target.rename(source)
            raise
        with suppress(OSError):  # it is there, and whole
            sync(self.path)

    def _new_work(self) -> Path:
        if self._made:
            work = self.path.parent / f".{self.path.name}.{secrets.token_hex(4)}{_WRITING}"
        else:
            work = self.path / f".{secrets.token_hex(4)}{_WRITING}"
        try:
            work.mkdir()
        except OSError as error:
            raise self._named(error) from None
        return work

    def _named(self, error: OSError, more: str = "") -> OSError:
        """The same error, of this folder where it is of the hidden one, which means nothing to users."""
        read = Path(error.filename or self.path).absolute()
        hidden = any(part.endswith(_WRITING) for part in read.parts)
        if not hidden and not read.is_relative_to(self.path.absolute()):
            return error
        return OSError(error.errno or errno.EIO, f"{error.strerror or error}{more}", str(self.given))

    def _check(self, may_be: MayBe) -> None:
        """Looks whether what is there may be used, and can be."""
        # Killed runs have left these; one that is whole was kept, and its user was told.
        rests = [self.path.glob(f".????????{_WRITING}")]
        rests.append(self.path.parent.glob(f".{_escaped(self.path.name)}.????????{_WRITING}"))
        for rest in chain.from_iterable(rests) if self._lock >= 0 else ():
            aside = rest / _ASIDE
            if rest.parent == self.path and aside.is_dir() and any(aside.iterdir()):
                self._cut.append(rest)
            elif not (rest / SUMMARY_FILE).is_file():
                shutil.rmtree(rest, ignore_errors=True)
        inside = sorted(path.name for path in self.path.iterdir())
        if may_be == "absent" and not self._made:
            raise Occupied("a folder that is there already")
        if may_be == "result" and inside and SUMMARY_FILE not in inside and not self._cut:
            raise Occupied("a folder that is not that of a run")
        if may_be == "empty" and inside:
            raise Occupied(f"a folder that is not empty, with {inside[0]} in it")
        self._new_work().rmdir()  # before a long run and not after it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives up the claim."""
        if self._held:
            shutil.rmtree(self._held, ignore_errors=True)
        _remove(self._made)
        if self._lock >= 0:
            os.close(self._lock)


def claim(out: Path, may_be: MayBe = "empty") -> OutFolder:
    """Claims a folder, and makes it where it is not there.

    Raises:
        Occupied: something else is there, or another run writes there.
        OSError, ValueError: it cannot be made, or not be written.
    """
    while True:
        made = _make(out)
        try:
            lock = _locked(out)
        except FileNotFoundError:
            continue  # another run has given it up, or put its result in place
        except Occupied:
            raise  # whose folder it is by now, though it is empty
        except OSError:
            _remove(made)
            raise
        folder = OutFolder(out, made, lock)
        try:
            folder._check(may_be)
        except BaseException:
            folder.__exit__(None, None, None)
            raise
        return folder


@contextmanager
def replacing(out: Path) -> Iterator[None]:
    """Around a claim of `out`: a result that is there goes aside, and away once a new one is in its place.

    Without a new one it is put back; what a killed process left aside is put back first.

    Raises:
        Occupied: it has a file that no command of Tailback writes, or another run writes there.
        OSError: it cannot be moved, as a mount point.
    """
    path = out.resolve()
    left = sorted(path.parent.glob(f".{_escaped(path.name)}.????????{_REPLACED}"))
    if path.is_dir():
        lock = _locked(path)
        if lock >= 0:
            os.close(lock)
        _remove([path])
    if left and not path.exists():
        left[-1].rename(path)
    if not path.is_dir() or not any(path.iterdir()):
        yield
        return
    if (name := _foreign(path)) is not None:
        raise Occupied(f"a folder with {name} in it, which is not part of a result")
    aside = path.parent / f".{path.name}.{secrets.token_hex(4)}{_REPLACED}"
    path.rename(aside)
    try:
        yield
    finally:
        if path.is_dir() and any(path.iterdir()):
            shutil.rmtree(aside, ignore_errors=True)
        else:
            _remove([path] if path.is_dir() else [])
            aside.rename(path)


def _foreign(folder: Path) -> str | None:
    """The first name in a folder that no command writes into its result, or none."""
    names = {path.name for path in folder.iterdir()}
    if not names & RESULT_MARKERS:
        return min(names)
    own = set(RESULT_NAMES)
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        own.update(
            str(name).split("/")[0] for name in json.loads((folder / SUMMARY_FILE).read_bytes())["outputs"]
        )
    foreign = [name for name in sorted(names) if name not in own and not _SEED.fullmatch(name)]
    return foreign[0] if foreign else None


def write_file(path: Path, data: bytes) -> None:
    """Writes a new file; it is on the disk when this returns."""
    write_parts(path, (data,))


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """The same in parts."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file, which is there as a whole or not at all.

    Raises:
        OSError: it names the file.
    """
    work = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_WRITING}")
    try:
        write_file(work, data)
        work.replace(path)
    except BaseException as error:
        with suppress(OSError):
            work.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from None
        raise
    with suppress(OSError):
        sync(path.parent)


def sync(path: Path) -> None:
    """Waits until what a file holds, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that cannot do it
            raise
    finally:
        os.close(handle)


def _place(path: Path) -> tuple[bool, str]:
    return path.name == SUMMARY_FILE, path.name


def _make(out: Path) -> list[Path]:
    """Makes a folder and those above it; gives the ones that were not there."""
    missing = [path for path in (out, *out.parents) if not path.exists()]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            try:
                path.mkdir()
                made.append(path)
            except FileExistsError:
                if not path.is_dir():
                    raise
        if not out.is_dir():
            raise Occupied("a file")
    except BaseException:
        _remove(made)
        raise
    return made if out in made else []


def _remove(made: list[Path]) -> None:
    """Takes away what was made, as far as it is empty."""
    with suppress(OSError):
        for path in reversed(made):
            path.rmdir()


def _locked(out: Path) -> int:
    """Locks a folder; -1 where the file system has no locks.

    Raises:
        FileNotFoundError: it is not the one of that name any more.
    """
    handle = os.open(out, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), out.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(out))
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise Occupied("another run that writes there") from None
        if error.errno in _NO_LOCKS:
            return -1
        raise
    return handle


def _escaped(name: str) -> str:
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
