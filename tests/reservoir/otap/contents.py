"""What a folder of OTAP Parquet says, record by record, put together by plain lookups as the specification has them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from neve.otap.check import check_folder
from neve.otap.check_report import Kind
from neve.otap.folder import list_folder
from neve.otap.parquet import open_file
from neve.otap.tables import STARS
from tests.otap.stars import ADJUSTED, Log, Record, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.otap.folder import Listing

COLUMNS = ("str", "int", "double", "bool", "bytes", "ser")
Attributes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Told:
    """A record with all that hangs on it; `count` is what it stands for. Its `id` and `part` may be any."""

    name: str
    time_ns: int
    resource: Attributes
    scope: str | None
    scope_attributes: Attributes
    attributes: Attributes
    events: tuple[tuple[str, Attributes], ...] = ()
    links: tuple[tuple[bytes, Attributes], ...] = ()
    count: Any = None
    id: int | None = field(default=None, compare=False)
    part: str = field(default="", compare=False)


def told(record: Record, count: Any = None) -> Told:
    """A record as it is given to `make_star`; its body, or the name of the span, tells it from others."""
    is_span = isinstance(record, Span)
    return Told(
        name=record.name if isinstance(record, Span) else str(record.body) if isinstance(record, Log) else "",
        time_ns=record.time_ns,
        resource=_sorted(record.resource_attributes),
        scope=record.scope,
        scope_attributes=_sorted(record.scope_attributes),
        attributes=_sorted(record.attributes),
        events=tuple((one.name, _sorted(one.attributes)) for one in record.events) if is_span else (),  # type: ignore[attr-defined]
        links=tuple((one.span_id, _sorted(one.attributes)) for one in record.links) if is_span else (),  # type: ignore[attr-defined]
        count=count,
    )


def contents(folder: Path | str, signal: str = "logs") -> list[Told]:
    """Every record of a folder, in the order of the files."""
    filesystem = pafs.LocalFileSystem()
    listing = list_folder(str(folder), filesystem)
    parts = sorted({file.part for file in listing[signal]})
    return [one for part in parts for one in _Part(listing, part, signal).records()]


def by_name(found: Iterable[Told]) -> dict[str, Told]:
    """Records by what tells them apart; each is there once."""
    listed = list(found)
    named = {one.name: one for one in listed}
    assert len(named) == len(listed)
    return named


def check_valid(folder: Path | str, signal: str = "logs") -> None:
    """A folder is valid OTAP: no dangling parent, nothing left over, everything in order."""
    report = check_folder(str(folder), pafs.LocalFileSystem(), STARS[signal])
    # A resource or a scope may rightly have no attributes.
    found = [one for one in report.problems if one.kind not in (Kind.NO_RESOURCE, Kind.NO_SCOPE)]
    assert (found, report.convention) == ([], "specification")


def files_of(folder: Path | str, *, hidden: bool = False) -> dict[str, str]:
    """A hash of every file of the tables; with those that a sampler has for itself, too."""
    found = {str(path.relative_to(folder)): path for path in Path(folder).rglob("*") if path.is_file()}
    shown = {name: path for name, path in sorted(found.items()) if hidden or not name.startswith("_neve")}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in shown.items()}


class _Part:
    """One part, its tables in memory."""

    def __init__(self, listing: Listing, part: str, signal: str) -> None:
        self.part, self.signal = part, signal
        self.tables = {
            table: [row for file in listing.get(table, ()) if file.part == part for row in _rows(file.path)]
            for table in STARS[signal].tables
        }
        self.own = self._by_parent(f"{signal.removesuffix('s')}_attrs")
        self.resources, self.scopes = self._by_parent("resource_attrs"), self._by_parent("scope_attrs")

    def records(self) -> Iterable[Told]:
        """The records of the root table."""
        for row in self.tables[self.signal]:
            attributes = dict(self.own.get(row["id"], ()))
            scope = row["scope"] or {}
            yield Told(
                name=row["name"] if self.signal == "spans" else (row["body"] or {}).get("str", ""),
                time_ns=row["start_time_unix_nano" if self.signal == "spans" else "time_unix_nano"],
                resource=self.resources.get((row["resource"] or {}).get("id"), ()),
                scope=scope.get("name"),
                scope_attributes=self.scopes.get(scope.get("id"), ()),
                attributes=tuple(one for one in attributes.items() if one[0] != ADJUSTED),
                events=self._hanging("span_events", "span_event_attrs", row["id"], "name"),
                links=self._hanging("span_links", "span_link_attrs", row["id"], "span_id"),
                count=attributes.get(ADJUSTED),
                id=row["id"],
                part=self.part,
            )

    def _by_parent(self, table: str) -> dict[int | None, Attributes]:
        found: dict[int | None, list[tuple[str, Any]]] = {}
        for row in self.tables.get(table, []):
            found.setdefault(row["parent_id"], []).append((row["key"], _value(row)))
        for pairs in found.values():
            assert len({key for key, _value in pairs}) == len(pairs)
            assert pairs == sorted(pairs, key=lambda pair: pair[0].encode())
        return {parent: tuple(pairs) for parent, pairs in found.items()}

    def _hanging(self, table: str, attrs: str, parent: int | None, name: str) -> tuple[tuple[Any, Attributes], ...]:
        if table not in self.tables or parent is None:
            return ()
        attributes = self._by_parent(attrs)
        mine = [row for row in self.tables[table] if row["parent_id"] == parent]
        return tuple((row[name], () if row["id"] is None else attributes.get(row["id"], ())) for row in mine)


def _rows(path: str) -> list[dict[str, Any]]:
    with open_file(path, pafs.LocalFileSystem()) as file:
        table = file.read()
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
            table = table.set_column(place, column.name, table.column(place).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _value(row: dict[str, Any]) -> Any:
    return next((row[name] for name in COLUMNS if row.get(name) is not None), None)


def _sorted(attributes: dict[str, Any]) -> Attributes:
    return tuple(sorted(attributes.items(), key=lambda pair: pair[0].encode()))


def numbered(count: int, services: Sequence[str | None] = ("shop",), start_ns: int = 0, **more: Any) -> list[Log]:
    """So many logs, a second apart, of the services in turn; each has an attribute and a body of its own."""
    return [
        Log(
            time_ns=start_ns + number * 1_000_000_000,
            service=services[number % len(services)],
            body=f"r{number}",
            attributes={"n": number},
            **more,
        )
        for number in range(count)
    ]
