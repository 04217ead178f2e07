"""Lines of metric queries, grouped in SQL by the labels that the query names.

A query such as `sum by (status) (rate({…} | json | status >= 500 [5m]))` needs one label of a line. SQL reads it and
groups the lines by it, so that the stages after the parser run once for each group and not for each line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.logql.language.syntax import (
    Drop,
    Json,
    Keep,
    LabelFilter,
    LabelFormat,
    LineFilter,
    Logfmt,
    LogQuery,
    Pattern,
    Regexp,
)
from neve.logql.pipeline.entry import DUPLICATE, ERROR, ERROR_DETAILS, Entry, Hints
from neve.logql.storage.conditions import LINE, TIME, write_conditions
from neve.logql.storage.parser_sql import EVERY_LINE, ParserSql, Piece, write_parser
from neve.logql.storage.streams import LEVEL, detect_level, write_own, write_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import Stage
    from neve.promql.series import Integers

__all__ = ["Buckets", "GroupPlan", "LineGroup", "Measure", "plan_groups"]

MAX_NAMES = 20
_PARSERS = (Json, Logfmt, Regexp, Pattern)
_ERRORS = frozenset({ERROR, ERROR_DETAILS})
_OF_LINE = ("__line__", "__timestamp__", "now")


@dataclass(frozen=True, slots=True)
class Buckets:
    """Intervals of time, open on the left, that every range of a query is made of."""

    origin_ns: int
    width_ns: int

    @property
    def end_sql(self) -> str:
        """Return the SQL for the end of the interval of a line."""
        origin, width = int(self.origin_ns), int(self.width_ns)
        return f"{origin} + (time_ns - {origin} + {width - 1}) // {width} * {width}"


@dataclass(frozen=True, slots=True)
class Measure:
    """Value of the lines of a group: of each line, or, with buckets, the lines or bytes of each interval."""

    buckets: Buckets | None = None
    is_bytes: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the SQL of the columns `times` and `amounts`."""
        if self.buckets is None:
            return ("list(time_ns) AS times",)
        amount = "CAST(sum(strlen(line)) AS BIGINT)" if self.is_bytes else "count(*)"
        return (f"{self.buckets.end_sql} AS times", f"{amount} AS amounts")


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Lines with the same labels: an entry for all of them, and times, with buckets also an amount for each."""

    entry: Entry
    times_ns: Integers
    amounts: Integers | None = None


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Query whose lines SQL can group: the names of labels, the parser, and the stages that run on groups."""

    query: LogQuery
    names: tuple[str, ...]
    hints: Hints
    parser: ParserSql
    stages: tuple[Stage, ...]
    measure: Measure

    def write_groups(self, window: LogWindow) -> Piece:
        """Return the statement for the groups."""
        streams, metadata = [write_stream(name) for name in self.names], [write_own(name) for name in self.names]
        conditions = write_conditions(self.query, window)
        inside = [f"{TIME} AS time_ns", f"{LINE} AS line"]
        inside += [f"{piece.text} AS s{place}" for place, piece in enumerate(streams)]
        inside += [f"{piece.text} AS m{place}" for place, piece in enumerate(metadata)]
        outside = [f"{kind}{place}" for kind in "sm" for place in range(len(self.names))]
        outside += [f"{piece.text} AS p{place}" for place, piece in enumerate(self.parser.values)]
        text = (
            f"SELECT {', '.join([*outside, *self.measure.columns])} "  # noqa: S608  # parameters
            f"FROM (SELECT {', '.join(inside)} FROM logs WHERE {conditions.sql}) "
            f"WHERE {self.parser.condition.text} GROUP BY ALL"
        )
        pieces = [*self.parser.values, *streams, *metadata]
        parameters = [one for piece in pieces for one in piece.parameters]
        return Piece(text, (*parameters, *conditions.parameters, *self.parser.condition.parameters))

    @property
    def rest(self) -> Piece | None:
        """Return the condition for the lines that the pipeline reads, or `None` if there are none."""
        condition = self.parser.condition
        return (
            None if condition == EVERY_LINE else Piece(f"NOT coalesce({condition.text}, false)", condition.parameters)
        )

    def read_groups(self, batch: pa.RecordBatch) -> Iterator[LineGroup]:
        """Yield the groups of rows. Intervals of one group come as several."""
        columns = [f"{kind}{place}" for kind in "smp" for place in range(len(self.names))]
        keys: list[tuple[Any, ...]] = (
            list(zip(*(batch.column(name).to_pylist() for name in columns), strict=True)) or [()] * batch.num_rows
        )
        times = batch.column("times")
        if self.measure.buckets is None:
            ends, flat = times.offsets.to_numpy(), times.values.to_numpy()
            for place, key in enumerate(keys):
                yield LineGroup(self._make_entry(key), flat[ends[place] : ends[place + 1]])
            return
        moments, amounts = times.to_numpy(), batch.column("amounts").to_numpy()
        rows: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(keys):
            rows.setdefault(key, []).append(place)
        for key, places in rows.items():
            yield LineGroup(self._make_entry(key), moments[places], amounts[places])

    def _make_entry(self, values: Sequence[str | None]) -> Entry:
        count = len(self.names)
        stream: dict[str, str] = {}
        metadata: dict[str, str] = {}
        for name, own, of_line in zip(self.names, values, values[count:], strict=False):
            if own:
                stream[name] = own
            if of_line is not None:
                metadata[name] = _read_level(of_line) if name == LEVEL else of_line
        entry = Entry.make(0, "", stream, metadata)
        for name, value in zip(self.names, values[2 * count :], strict=True):
            free = entry.name_for(name, self.hints)
            if value is not None and free is not None:
                entry.set(free, value)
        return entry


def _read_level(value: str) -> str:
    number, _, text = value.partition(":")
    return detect_level(int(number), text)


def plan_groups(query: LogQuery, hints: Hints, measure: Measure) -> GroupPlan | None:
    """Return the plan of a query, or `None` if its lines must be read one by one."""
    if hints.required is None and not hints.needs_none:
        return None
    names = tuple(sorted((hints.required or frozenset()) - _ERRORS))
    if len(names) > MAX_NAMES or any(name[0] == "_" or name.endswith(DUPLICATE) for name in names):
        return None
    split = _split_stages(query.stages)
    if split is None:
        return None
    parser_stage, later = split
    if hints.needs_none:
        parser_stage = None
    parser = write_parser(parser_stage, names)
    return None if parser is None else GroupPlan(query, names, hints, parser, later, measure)


def _split_stages(stages: tuple[Stage, ...]) -> tuple[Stage | None, tuple[Stage, ...]] | None:
    """Return the parser and the stages on labels, or `None` if there are other stages."""
    parser: Stage | None = None
    later: list[Stage] = []
    for stage in stages:
        if isinstance(stage, LineFilter):
            if stage.operator in {"|>", "!>"} or any(is_address for _, is_address in stage.texts):
                return None
        elif isinstance(stage, _PARSERS) and parser is None and not later:
            parser = stage
        elif _is_of_labels(stage):
            later.append(stage)
        else:
            return None
    return parser, tuple(later)


def _is_of_labels(stage: Stage) -> bool:
    """Return whether a stage reads labels only, and not the line or its time."""
    if isinstance(stage, LabelFormat):
        return not any(word in text for _, text, is_source in stage.formats if not is_source for word in _OF_LINE)
    return isinstance(stage, LabelFilter | Drop | Keep)
