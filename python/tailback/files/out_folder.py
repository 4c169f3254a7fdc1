"""The folder of a result: claimed before a run and filled at its end, so that it is complete or absent.

A claim creates the folder and locks it, so that no second run writes there; the lock ends with the process. Files
are first written to a hidden folder on the same file system: `.NAME.XXXXXXXX.writing` beside a new folder, or
`.XXXXXXXX.writing` inside an existing one, which may be a mount point or somebody's working directory. When all
files are on the disk, one rename puts a new folder in place; in an existing one, each file is renamed:
`summary.json` of an older result goes first, and the new one comes last. So a folder with `summary.json` is
complete, and one without it is not a result.
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
"""Its presence marks a complete result: it is written last and removed first."""
_WRITING_SUFFIX, _OLD_FOLDER, _REPLACED_SUFFIX = ".writing", ".old", ".replaced"
RESULT_MARKERS = {
    SUMMARY_FILE,
    "asked.json",
    "journal.jsonl",
    "reproduce.json",
    "seeds.json",
    "sweep.json",
    "tune.json",
}
"""Each result of a command has at least one of these files."""
RESULT_NAMES = RESULT_MARKERS | {
    "astra.json",
    "best-fit",
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
    "optuna.log",
    "plan.json",
    "point.yaml",
    "posterior.parquet",
    "profiles.parquet",
    "report.html",
    "reproduce.html",
    "round-1",
    "round-2",
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
"""Names in the folder of a result, besides folders of seeds and other simulators' outputs."""
_SEED_FOLDER = re.compile(r"seed-\d+")
_NO_LOCK_ERRORS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL, errno.ENOSYS)
"""Errors of file systems that cannot lock a folder, such as NFS."""

AllowedFolder = Literal["absent", "empty", "result", "any"]


class Occupied(FileExistsError):  # noqa: N818  it is what was found
    """The folder cannot be used; the text describes what was found there."""


class OutFolder(AbstractContextManager["OutFolder"]):
    """A claimed folder. The end of its context releases the claim and removes folders that stayed empty."""

    def __init__(self, given: Path, created: list[Path], lock: int) -> None:
        """`created` are the folders that the claim created, outermost first."""
        self.given = given
        self.path = given.resolve()  # "." has no usable parent
        self._created = created
        self._lock = lock
        self._growing: Path | None = None
        self._unfinished: list[Path] = []
        """Folders with files of an older result, left by a process that was killed while it replaced them."""

    @property
    def created(self) -> list[Path]:
        """Folders that the claim created, innermost first."""
        return list(reversed(self._created))

    def growing(self) -> Path:
        """A hidden folder for files that are written during the run. `fill` moves them to the result.

        Raises:
            OSError: the folder cannot be created.
        """
        if self._growing is None:
            self._growing = self._new_work()
        return self._growing

    def growing_names(self) -> set[str]:
        """Names of the files in `growing`."""
        return {path.name for path in self._growing.iterdir()} if self._growing else set()

    def fill(self, write: Callable[[Path], None]) -> None:
        """Lets `write` write all files of a result into a hidden folder, then puts them in place.

        Raises:
            OSError: the message names this folder, whose contents are unchanged. A complete result that could
                not be put in place is kept; the message names its folder.
        """
        work, names, whole = self._new_work(), set[str](), False
        try:
            write(work)
            for grown in self._growing.iterdir() if self._growing else ():
                sync(grown)
                grown.rename(work / grown.name)
            sync(work)
            names = {path.name for path in work.iterdir()}
            if self._created:
                work.rename(self.path)
                with suppress(OSError):  # the result is complete anyway
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
        for done in (work, *self._unfinished):  # with the older result
            shutil.rmtree(done, ignore_errors=True)

    def _move_in(self, work: Path) -> None:
        """Replaces the contents of the folder by the new files; on failure moves all files back."""
        aside = work / _OLD_FOLDER
        old = [path for path in self.path.iterdir() if path.suffix != _WRITING_SUFFIX]
        new = list(work.iterdir())
        aside.mkdir()
        moves = [(path, aside / path.name) for path in sorted(old, key=_move_order, reverse=True)]
        moves += [(path, self.path / path.name) for path in sorted(new, key=_move_order)]
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
        with suppress(OSError):  # the result is complete anyway
            sync(self.path)

    def _new_work(self) -> Path:
        if self._created:
            work = self.path.parent / f".{self.path.name}.{secrets.token_hex(4)}{_WRITING_SUFFIX}"
        else:
            work = self.path / f".{secrets.token_hex(4)}{_WRITING_SUFFIX}"
        try:
            work.mkdir()
        except OSError as error:
            raise self._named(error) from None
        return work

    def _named(self, error: OSError, more: str = "") -> OSError:
        """The error with the name of this folder in place of the hidden one."""
        read = Path(error.filename or self.path).absolute()
        hidden = any(part.endswith(_WRITING_SUFFIX) for part in read.parts)
        if not hidden and not read.is_relative_to(self.path.absolute()):
            return error
        return OSError(error.errno or errno.EIO, f"{error.strerror or error}{more}", str(self.given))

    def _check(self, allowed: AllowedFolder) -> None:
        """Raises an error unless the folder is in the allowed state and can be written."""
        # Remove what killed runs have left, except complete results, which the user was told of.
        rests = [self.path.glob(f".????????{_WRITING_SUFFIX}")]
        rests.append(self.path.parent.glob(f".{_escaped(self.path.name)}.????????{_WRITING_SUFFIX}"))
        for rest in chain.from_iterable(rests) if self._lock >= 0 else ():
            aside = rest / _OLD_FOLDER
            if rest.parent == self.path and aside.is_dir() and any(aside.iterdir()):
                self._unfinished.append(rest)
            elif not (rest / SUMMARY_FILE).is_file():
                shutil.rmtree(rest, ignore_errors=True)
        inside = sorted(path.name for path in self.path.iterdir())
        if allowed == "absent" and not self._created:
            raise Occupied("a folder that is there already")
        if allowed == "result" and inside and SUMMARY_FILE not in inside and not self._unfinished:
            raise Occupied("a folder that is not that of a run")
        if allowed == "empty" and inside:
            raise Occupied(f"a folder that is not empty, with {inside[0]} in it")
        self._new_work().rmdir()  # before a long run and not after it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._growing:
            shutil.rmtree(self._growing, ignore_errors=True)
        _remove(self._created)
        if self._lock >= 0:
            os.close(self._lock)


def claim(out: Path, allowed: AllowedFolder = "empty") -> OutFolder:
    """Claims a folder, and creates it if needed.

    Raises:
        Occupied: the folder is not in the allowed state, or another run writes there.
        OSError, ValueError: the folder cannot be created or written.
    """
    while True:
        made = _create(out)
        try:
            lock = _locked(out)
        except FileNotFoundError:
            continue  # another run has released it, or put its result in place
        except Occupied:
            raise  # another run has claimed the folder: leave it
        except OSError:
            _remove(made)
            raise
        folder = OutFolder(out, made, lock)
        try:
            folder._check(allowed)
        except BaseException:
            folder.__exit__(None, None, None)
            raise
        return folder


@contextmanager
def replacing(out: Path) -> Iterator[None]:
    """Around a claim of `out`: moves an older result aside, and removes it once a new one is in place.

    Without a new result the older one is moved back. A result that a killed process left aside is restored
    first.

    Raises:
        Occupied: the folder has a file that no command of Tailback writes, or another run writes there.
        OSError: the folder cannot be moved, for example a mount point.
    """
    path = out.resolve()
    left = sorted(path.parent.glob(f".{_escaped(path.name)}.????????{_REPLACED_SUFFIX}"))
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
    if (name := _foreign_name(path)) is not None:
        raise Occupied(f"a folder with {name} in it, which is not part of a result")
    aside = path.parent / f".{path.name}.{secrets.token_hex(4)}{_REPLACED_SUFFIX}"
    path.rename(aside)
    try:
        yield
    finally:
        if path.is_dir() and any(path.iterdir()):
            shutil.rmtree(aside, ignore_errors=True)
        else:
            _remove([path] if path.is_dir() else [])
            aside.rename(path)


def _foreign_name(folder: Path) -> str | None:
    """The first name in a folder that no command writes into its result; None if there are none."""
    names = {path.name for path in folder.iterdir()}
    if not names & RESULT_MARKERS:
        return min(names)
    own = set(RESULT_NAMES)
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        own.update(
            str(name).split("/")[0] for name in json.loads((folder / SUMMARY_FILE).read_bytes())["outputs"]
        )
    foreign = [name for name in sorted(names) if name not in own and not _SEED_FOLDER.fullmatch(name)]
    return foreign[0] if foreign else None


def write_file(path: Path, data: bytes) -> None:
    """Writes a new file, and waits until it is on the disk."""
    write_parts(path, (data,))


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """`write_file` of data in parts."""
    with path.open("xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file atomically.

    Raises:
        OSError: the message names the file.
    """
    work = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_WRITING_SUFFIX}")
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
    """Waits until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # the file system cannot do it
            raise
    finally:
        os.close(handle)


def _move_order(path: Path) -> tuple[bool, str]:
    return path.name == SUMMARY_FILE, path.name


def _create(out: Path) -> list[Path]:
    """Creates a folder and its parents, and returns those that did not exist."""
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
    """Removes created folders that are empty."""
    with suppress(OSError):
        for path in reversed(made):
            path.rmdir()


def _locked(out: Path) -> int:
    """Locks a folder; -1 where the file system has no locks.

    Raises:
        FileNotFoundError: the folder was removed or replaced meanwhile.
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
        if error.errno in _NO_LOCK_ERRORS:
            return -1
        raise
    return handle


def _escaped(name: str) -> str:
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)
