"""SONiC's config_db.json as tables: their keys taken apart, their texts read.

The schema: sonic-net/sonic-buildimage, src/sonic-yang-models (Configuration.md), and the sample outputs of
src/sonic-config-engine/tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tailback.errors import InputError
from tailback.files import FileRefusedError
from tailback.files.json import read_json

Entry = dict[str, Any]


class Tables:
    """The tables of a file, and what of them is not honoured."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            InputError: it cannot be read, or is no config_db.json: one line.
        """
        self._path = path
        self.not_honoured: list[str] = []
        try:
            self.data = _nested(read_json(path))
        except FileRefusedError as error:
            self.refuse("", error.found, error.expected)
        except OSError as error:
            self.refuse("", (error.strerror or "no file").lower(), "a config_db.json that can be read")
        except ValueError as error:
            if _is_template(path):
                self.refuse("", "a Jinja template", "what SONiC renders of it (sonic-cfggen -d -t FILE)")
            self.refuse("", str(error).partition(": ")[2] or "no JSON", "a config_db.json")
        if not any(name in self.data for name in ("PORT", "BUFFER_POOL", "PORT_QOS_MAP", "WRED_PROFILE")):
            self.refuse(
                "", "none of SONiC's tables", "PORT, BUFFER_POOL, PORT_QOS_MAP or WRED_PROFILE among others"
            )

    def refuse(self, where: str, found: str, expected: str) -> NoReturn:
        """Raises a InputError of one line that names the file, and the table and key."""
        at = f"{where}: " if where else ""
        raise InputError.at(str(self._path), f"{at}found {found}, expected {expected}")

    def leave(self, what: str) -> None:
        """Something is not honoured, and why; said once."""
        if what not in self.not_honoured:
            self.not_honoured.append(what)

    def entries(self, table: str) -> dict[str, Entry]:
        """The entries of a table by their keys; empty where there is no such table."""
        found = self.data.get(table, {})
        if not isinstance(found, dict):
            self.refuse(table, type(found).__name__, "a mapping of keys to entries")
        for key, entry in found.items():
            if not isinstance(entry, dict):
                self.refuse(f"{table}|{key}", type(entry).__name__, "a mapping of fields")
        return found

    def entry(self, table: str, name: str) -> Entry | None:
        """The entry that a field names, as `AZURE` or, before 2021, `[WRED_PROFILE|AZURE]`."""
        bare = name.strip("[]").rpartition("|")[2]
        found = self.entries(table).get(bare)
        if found is None and bare not in ("", "NULL"):
            self.leave(f"{table}|{bare}: named, and not in the file")
        return found

    def number(self, table: str, key: str, field: str, entry: Entry) -> int | None:
        """A whole number in a field; None: it is not there."""
        text = entry.get(field)
        if text is None:
            return None
        try:
            return int(str(text))
        except ValueError:
            self.refuse(f"{table}|{key}.{field}", repr(str(text)[:40]), "a whole number")

    def mapping(self, table: str, name: str, last: int) -> dict[int, int]:
        """A map from numbers up to `last` to classes of 0 to 7."""
        found: dict[int, int] = {}
        for text, value in (self.entry(table, name) or {}).items():
            where = f"{table}|{name}.{text}"
            try:
                key, to = int(text), int(str(value))
            except ValueError:
                self.refuse(where, repr(str(value)[:40]), "a number for a number")
            if (7 < key <= 15 and last == 7) or 7 < to <= 15:
                self.leave(f"{table}|{name}: classes above 7")
                continue
            if not 0 <= key <= last or not 0 <= to <= 7:
                self.refuse(where, str(to), f"a key of 0 to {last} and a class of 0 to 7")
            found[key] = to
        return found

    def ports_named(self) -> set[str]:
        """Ports that tables other than PORT name in their keys."""
        keys = [
            key.rpartition("|")[0]
            for table in ("BUFFER_PG", "BUFFER_QUEUE", "QUEUE")
            for key in self.entries(table)
        ]
        keys += [key for table in ("PORT_QOS_MAP", "PFC_WD") for key in self.entries(table)]
        keys += [port for entry in self.entries("CABLE_LENGTH").values() for port in entry]
        ports = {port.rpartition("|")[2] for key in keys for port in key.split(",")}
        return {port for port in ports if port not in ("", "global", "GLOBAL")}

    def by_class(self, table: str) -> Iterator[tuple[str, int, Entry]]:
        """Entries keyed `PORTS|CLASSES`, such as `Ethernet0,Ethernet4|3-4`, a port and a class at a time."""
        for key, entry in self.entries(table).items():
            ports, _, classes = key.rpartition("|")
            first, _, last = classes.partition("-")
            try:
                numbers = range(int(first), int(last or first) + 1)
            except ValueError:
                self.refuse(f"{table}|{key}", repr(classes[:40]), "a class or a range of them")
            if not all(0 <= number <= 7 for number in (*numbers[:1], *numbers[-1:])):
                self.leave(f"{table}: classes above 7")
                continue
            for port in ports.split(","):
                for number in numbers:
                    yield port, number, entry

    def most(self, what: str, values: Iterable[Any]) -> Any:
        """The value that most ports have; None where there is none. Others are not honoured."""
        count = Counter(values)
        if not count:
            return None
        (value, _), *others = count.most_common()
        if others:
            self.leave(f"{what}: {sum(n for _, n in others)} of {count.total()} are other than {value}")
        return value


def _nested(data: dict[str, Any]) -> dict[str, Any]:
    """Tables of a dump whose keys are `TABLE|KEY`, as redis-dump writes it; others are as they are."""
    if not any("|" in name for name in data):
        return data
    tables: dict[str, Any] = {}
    for name, entry in data.items():
        table, separator, key = name.partition("|")
        fields = entry["value"] if isinstance(entry, dict) and isinstance(entry.get("value"), dict) else entry
        if not separator:
            tables[table] = fields
        else:
            tables.setdefault(table, {})[key] = fields
    return tables


def _is_template(path: Path) -> bool:
    """Whether the beginning of a file has what Jinja evaluates."""
    with path.open(errors="replace") as file:
        text = file.read(1 << 16)
    return "{%" in text or "{{" in text


def numbers(text: str) -> list[int]:
    """Priorities as in `3,4`; what is none is left out."""
    return sorted({int(part) for part in text.split(",") if part.strip().isdigit() and int(part) <= 7})
