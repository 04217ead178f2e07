"""Look words up in the index: the files, and the rows of them, that may contain the words of a query.

Filters that were read are cached. Data files never change, so their filters don't either.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThanOrEqual, Reference

from neve.logger import get_logger
from neve.model.tables import SEARCH_INDEX
from neve.search.bloom_filter import FORM, Probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.lake.lake import Lake


Text = tuple[str, str]  # the path of a data file, and a column


@dataclass(frozen=True)
class RangeFilter:
    """The filter of the rows `[first, end)` of a file."""

    first: int
    end: int
    filter: bytes


class FilterCache:
    """Cache of the filters of texts, with eviction of the least recently used. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._parts: OrderedDict[Text, tuple[RangeFilter, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, text: Text) -> tuple[RangeFilter, ...] | None:
        """Return the cached filters of a text."""
        with self._lock:
            if text in self._parts:
                self._parts.move_to_end(text)
            return self._parts.get(text)

    def store(self, text: Text, parts: tuple[RangeFilter, ...]) -> None:
        """Cache the filters of a text."""
        with self._lock:
            self._bytes += _size(parts) - _size(self._parts.pop(text, ()))
            self._parts[text] = parts
            while self._bytes > self.most_bytes:
                _text, evicted = self._parts.popitem(last=False)
                self._bytes -= _size(evicted)

    @property
    def bytes(self) -> int:
        """Return the size of the cached filters in bytes."""
        return self._bytes


def _size(parts: tuple[RangeFilter, ...]) -> int:
    return sum(len(part.filter) for part in parts)


Tokens = tuple[tuple[str, frozenset[str]], ...]  # columns, and the lower-case words that must all be in the text
Spans = tuple[tuple[int, int], ...]  # rows of a file: the first, and the one after the last

MEMORY_BYTES = 256 * 1024 * 1024  # 256 MB
MAX_NAMED_PATHS = 200  # paths that the filter of a scan names

log = get_logger(__name__)


class SearchIndex:
    """Look-up of words in the index of a lake. Thread-safe. A lake without an index is searched without one."""

    def __init__(self, lake: Lake, most_bytes: int = MEMORY_BYTES) -> None:
        self._lake = lake
        self._memory = FilterCache(most_bytes)
        self._absent: tuple[int | None, frozenset[Text]] = (None, frozenset())
        self._reported: set[str] = set()
        self._reporting = threading.Lock()

    def find_rows(
        self, table_name: str, organization: str, paths: Sequence[str], tokens: Tokens
    ) -> dict[str, Spans | None]:
        """Return for each file the rows that may match: none if it can't match, `None` if it is not indexed."""
        words_by_column: defaultdict[str, set[str]] = defaultdict(set)
        for column, words in tokens:
            words_by_column[column] |= words
        probes = {column: Probe.of(words) for column, words in words_by_column.items() if words}
        try:
            found = self._spans(table_name, organization, paths, probes)
        except Exception as error:  # a query must not fail because of the index
            self._warn_once(error)
            return dict.fromkeys(paths)
        return {path: _common_spans([found.get((path, column)) for column in probes]) for path in paths}

    def _spans(
        self, table_name: str, organization: str, paths: Sequence[str], probes: Mapping[str, Probe]
    ) -> dict[Text, Spans]:
        """Return the spans of every indexed text: first from the cache, then from the table."""
        found: dict[Text, Spans] = {}
        unknown: set[Text] = set()
        for column, probe in probes.items():
            for path in paths:
                parts = self._memory.get((path, column))
                if parts is None:
                    unknown.add((path, column))
                else:
                    found[path, column] = tuple(_matches(parts, probe))
        if unknown:
            found |= self._read(table_name, organization, unknown, probes)
        return found

    def _read(
        self, table_name: str, organization: str, unknown: set[Text], probes: Mapping[str, Probe]
    ) -> dict[Text, Spans]:
        index = self._lake.table(SEARCH_INDEX.name)
        snapshot, absent = self._absent
        if snapshot == index.metadata.current_snapshot_id:
            unknown = unknown - absent
        if not unknown or index.metadata.current_snapshot_id is None:
            return {}
        spans: defaultdict[Text, list[tuple[int, int]]] = defaultdict(list)
        filters: defaultdict[Text, list[RangeFilter]] = defaultdict(list)
        room = self._memory.most_bytes
        for text, part in _read_rows(index, table_name, organization, unknown):
            spans[text] += _matches((part,), probes[text[1]])
            room -= len(part.filter)
            if room >= 0:
                filters[text].append(part)
        if room >= 0:  # otherwise some filters of a text may be missing
            for text, parts in filters.items():
                self._memory.store(text, tuple(parts))
        missing = frozenset(unknown - spans.keys())
        same = snapshot == index.metadata.current_snapshot_id
        self._absent = (index.metadata.current_snapshot_id, absent | missing if same else missing)
        return {text: tuple(sorted(set(found))) for text, found in spans.items()}

    def _warn_once(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        with self._reporting:
            if text not in self._reported:
                self._reported.add(text)
                log.warning("can't read the search index, reading all files", error=text)


def _read_rows(
    index: Table, table_name: str, organization: str, texts: set[Text]
) -> Iterator[tuple[Text, RangeFilter]]:
    """Yield the index rows of some texts."""
    paths = sorted({path for path, _column in texts})
    names = pa.array(paths, pa.large_string())
    fields = ("file_path", "column_name", "first_row", "row_count", "filter")
    scan = index.scan(row_filter=_filter(table_name, organization, paths), selected_fields=fields)
    for batch in scan.to_arrow_batch_reader():
        rows = batch.filter(pc.is_in(batch.column("file_path").cast(pa.large_string()), value_set=names))
        columns = (rows.column(name).to_pylist() for name in fields)
        for path, column, first, count, filled in zip(*columns, strict=True):
            if (path, column) in texts:
                yield (path, column), RangeFilter(first, first + count, filled or b"")


def _filter(table_name: str, organization: str, paths: Sequence[str]) -> BooleanExpression:
    path = Reference("file_path")
    found = And(
        EqualTo(term=Reference("organization_id"), value=organization),
        EqualTo(term=Reference("table_name"), value=table_name),
        EqualTo(term=Reference("form"), value=FORM),
        GreaterThanOrEqual(term=path, value=paths[0]),
        LessThanOrEqual(term=path, value=paths[-1]),
    )
    return And(found, In(term=path, literals=paths)) if len(paths) <= MAX_NAMED_PATHS else found


def _matches(parts: Sequence[RangeFilter], probe: Probe) -> Iterator[tuple[int, int]]:
    return ((part.first, part.end) for part in parts if probe.may_be_in(part.filter))


def _common_spans(found: Sequence[Spans | None]) -> Spans | None:
    """Return the rows that may match in every column. A column that is not indexed excludes none."""
    known = [spans for spans in found if spans is not None]
    if not known:
        return None
    common, *others = known
    for other in others:
        common = intersect_spans(common, other)
    return join_spans(common)


def intersect_spans(left: Spans, right: Spans) -> Spans:
    """Return the rows that are in both.

    >>> intersect_spans(((0, 10), (20, 30)), ((5, 25),))
    ((5, 10), (20, 25))
    """
    pairs = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return tuple(sorted((start, end) for start, end in pairs if start < end))


def join_spans(spans: Spans) -> Spans:
    """Merge adjacent spans.

    >>> join_spans(((0, 10), (10, 20), (30, 40)))
    ((0, 20), (30, 40))
    """
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return tuple(result)
