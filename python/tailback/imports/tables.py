"""Reads the tables of SONiC's config_db.json, with their keys and values.

The schema: sonic-net/sonic-buildimage, src/sonic-yang-models (Configuration.md), and the sample outputs of
src/sonic-config-engine/tests.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from tailback.errors import InputError, one_line
from tailback.files import FileRefusedError
from tailback.files.json import Repeating, read_json
from tailback.text import plural, verb

Entry = dict[str, Any]
READ_TABLES = (
    *("PORT", "BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_QUEUE", "WRED_PROFILE", "QUEUE"),
    *("PORT_QOS_MAP", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "TC_TO_PRIORITY_GROUP_MAP"),
    *("MAP_PFC_PRIORITY_TO_QUEUE", "SCHEDULER", "PFC_WD", "DEVICE_METADATA"),
    *("DEFAULT_LOSSLESS_BUFFER_PARAMETER", "CABLE_LENGTH"),
)
_TABLES = ("PORT", "BUFFER_POOL", "PORT_QOS_MAP", "WRED_PROFILE")
_KINDS = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")


def _has_tables(data: dict[str, Any]) -> bool:
    return any(name in data for name in _TABLES)


class Tables:
    """The tables of a file, and the list of entries that are not honoured."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            InputError: the file cannot be read, or is not a config_db.json.
        """
        self._path = path
        self.not_honoured: list[str] = []
        try:
            self.data = _nested(read_json(path, repeating=True))
        except FileRefusedError as error:
            self.refuse("", error.found, error.expected)
        except OSError as error:
            self.refuse("", (error.strerror or "no file").lower(), "a config_db.json that can be read")
        except ValueError as error:
            if other := _other_form(path):
                self.refuse("", *other)
            self.refuse("", _json_fault(str(error).partition(": ")[2]), "a config_db.json")
        if not _has_tables(self.data):
            parts = [name for name, part in self.data.items() if isinstance(part, dict) and _has_tables(part)]
            if parts:
                self.refuse(
                    "",
                    f"SONiC's tables below {', '.join(parts)[:80]}",
                    "the tables of one ASIC by themselves",
                )
            self.refuse("", "none of SONiC's tables", f"{', '.join(_TABLES)} among others")
        self._refuse_repeated()
        self.up = self._up()

    def _refuse_repeated(self) -> None:
        """Refuses a table that is read and is in the file twice, or has a key or a field twice."""
        for name in getattr(self.data, "repeated", ()):
            table, _, key = name.partition("|")
            if table in READ_TABLES:
                self.refuse(table, f"the {'key ' + key if key else 'table'} twice".rstrip(), "each once")
        for table in READ_TABLES:
            entries = self.data.get(table, {})
            for key in getattr(entries, "repeated", ()):
                self.refuse(table, f"the key {key[:60]} twice", "each once")
            for key, entry in entries.items() if isinstance(entries, dict) else ():
                for field in getattr(entry, "repeated", ()):
                    self.refuse(f"{table}|{key}", f"the field {field[:60]} twice", "each once")

    def refuse(self, where: str, found: str, expected: str) -> NoReturn:
        """Raises an InputError with the file, and the table and key."""
        at = f"{where}: " if where else ""
        raise InputError.at(str(self._path), f"{at}found {found}, expected {expected}")

    def not_honour(self, what: str) -> None:
        """Adds an entry to the list of what is not honoured, once."""
        what = one_line(what)
        if what not in self.not_honoured:
            self.not_honoured.append(what)

    def entries(self, table: str) -> dict[str, Entry]:
        """The entries of a table by their keys; empty if there is no such table."""
        found = self.data.get(table, {})
        if not isinstance(found, dict):
            self.refuse(table, _kind(found), "a mapping of keys to entries")
        for key, entry in found.items():
            if not isinstance(entry, dict):
                self.refuse(f"{table}|{key}", _kind(entry), "a mapping of fields")
        return found

    def _up(self) -> set[str] | None:
        """Ports that are up; None: the file does not say which ports there are.

        Of ports that are down SONiC's files have entries, too, whose profiles give them no memory.
        """
        ports = self.entries("PORT")
        states = {name: port.get("admin_status") for name, port in ports.items()}
        up = {name for name, state in states.items() if state == "up"}
        return up or set(ports) or None

    def by_port(self, table: str) -> Iterator[tuple[str, str, Entry]]:
        """Entries keyed `PORTS`, such as `Ethernet0,Ethernet4`: port, key and entry, of ports that are up."""
        for key, entry in self.entries(table).items():
            for port in key.split(","):
                if key.lower() != "global" and (self.up is None or port in self.up):
                    yield port, key, entry

    def entry(self, table: str, name: str) -> Entry | None:
        """The entry that a field refers to, as `AZURE` or, before 2021, `[WRED_PROFILE|AZURE]`."""
        bare = name.strip("[]").rpartition("|")[2]
        found = self.entries(table).get(bare)
        if found is None and bare not in ("", "NULL"):
            self.not_honour(f"{table}|{bare}: named, and not in the file")
        return found

    def number(self, table: str, key: str, field: str, entry: Entry) -> int | None:
        """A whole number in a field; None if it is missing."""
        text = entry.get(field)
        if text is None:
            return None
        number = _whole(text)
        if number is None:
            self.refuse(f"{table}|{key}.{field}", repr(str(text)[:40]), "a whole number")
        return number

    def mapping(self, table: str, name: str, last: int) -> dict[int, int]:
        """A map from numbers up to `last` to classes 0 to 7."""
        found: dict[int, int] = {}
        for text, value in (self.entry(table, name) or {}).items():
            where = f"{table}|{name}.{text}"
            key, to = _whole(text), _whole(value)
            if key is None or to is None:
                self.refuse(where, repr(str(value)[:40]), "numbers on both sides")
            if (7 < key <= 15 and last == 7) or 7 < to <= 15:
                self.not_honour(f"{table}|{name}: classes above 7")
                continue
            if not 0 <= key <= last:
                self.refuse(f"{table}|{name}", f"the key {key}", f"keys of 0 to {last}")
            if not 0 <= to <= 7:
                self.refuse(where, str(to), "a class of 0 to 7")
            found[key] = to
        return found

    def ports_named(self) -> set[str]:
        """Ports in the keys of tables other than PORT."""
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
        """Entries keyed `PORTS|CLASSES`, such as `Ethernet0,Ethernet4|3-4`, a port and a class at a time.

        Of ports that are up.
        """
        for key, entry in self.entries(table).items():
            ports, _, classes = key.rpartition("|")
            begin, _, end = classes.partition("-")
            first, last = _whole(begin), _whole(end or begin)
            if first is None or last is None or first > last:
                self.refuse(f"{table}|{key}", repr(classes[:40]), "a class or a range of them")
            numbers = range(first, last + 1)
            if not all(0 <= number <= 7 for number in (*numbers[:1], *numbers[-1:])):
                self.not_honour(f"{table}: classes above 7")
                continue
            for named in ports.split(","):
                port = named.rpartition("|")[2]
                if self.up is None or port in self.up:
                    for number in numbers:
                        yield port, number, entry

    def most_common(self, what: str, values: Iterable[tuple[str, Any]]) -> Any:
        """The value that most ports have, of pairs of port and value; None where there is none.

        Other values are not honoured, and neither is it that ports have none.
        """
        pairs = list(values)
        count = Counter(value for _, value in pairs)
        if not count:
            return None
        (value, _), *others = count.most_common()
        if others:
            differ = sum(n for _, n in others)
            self.not_honour(
                f"{what}: {differ} of {count.total()} {verb(differ, 'is', 'are')} other than {value}"
            )
        ports = self.up or set()
        if without := ports - {port for port, _ in pairs}:
            self.not_honour(
                f"{what}: {len(without)} of {plural(len(ports), 'port')} {verb(len(without), 'has', 'have')} none"
            )
        return value


def _whole(value: object) -> int | None:
    """A whole number as SONiC writes it; int() also takes 1_000 and digits of other scripts."""
    text = str(value)
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None


def _nested(data: dict[str, Any]) -> dict[str, Any]:
    """The tables of a dump with keys `TABLE|KEY`, as redis-dump writes it; other data are unchanged."""
    if not any("|" in name for name in data):
        return data
    tables = Repeating([])
    tables.repeated = getattr(data, "repeated", [])
    for name, entry in data.items():
        table, separator, key = name.partition("|")
        fields = entry["value"] if isinstance(entry, dict) and isinstance(entry.get("value"), dict) else entry
        if not separator:
            tables[table] = fields
        else:
            tables.setdefault(table, {})[key] = fields
    return tables


def _json_fault(text: str) -> str:
    """A reader's message, `Expecting value: line 1 column 1 (char 0)`, as what was found."""
    fault = re.fullmatch(r"(.*): line (\d+) column (\d+) \(char \d+\)", text)
    if fault is None:
        return text or "no JSON"
    return f"no JSON at line {fault[2]}, column {fault[3]} ({fault[1].lower()})"


def _other_form(path: Path) -> tuple[str, str] | None:
    """Description of a file that is not JSON, and the tool with which SONiC makes a configuration of it."""
    with path.open(errors="replace") as file:
        text = file.read(1 << 16)
    if not text.strip():
        return "an empty file", "a config_db.json"
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        made = "sonic-cfggen -m FILE --print-data"
        return "XML, perhaps a minigraph", f"the config_db.json that SONiC makes of it ({made})"
    if "{%" in text or "{{" in text:
        return "a Jinja template", "what SONiC renders of it (sonic-cfggen -d -t FILE)"
    try:
        whole = json.loads(text)
    except ValueError:
        return None
    return f"{_kind(whole)} and no mapping", "a config_db.json, which maps tables to entries"
