"""Syntax tree of LogQL.

A log query is a selector with stages. A metric query is a tree of PromQL's nodes whose leaves are range aggregations
over log queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from neve.lexical.positions import NOWHERE, Span
from neve.promql.language.syntax import Node

if TYPE_CHECKING:
    from neve.lexical.matchers import Matcher

__all__ = [
    "BytesFilter",
    "Combination",
    "Decolorize",
    "Drop",
    "DurationFilter",
    "Extraction",
    "Grouping",
    "IpFilter",
    "Json",
    "Keep",
    "LabelCondition",
    "LabelFilter",
    "LabelFormat",
    "LineFilter",
    "LineFormat",
    "LogQuery",
    "LogRange",
    "Logfmt",
    "NumberFilter",
    "Pattern",
    "Query",
    "RangeAggregation",
    "Regexp",
    "Stage",
    "StringFilter",
    "Unpack",
    "Unwrap",
    "ZeroAsNan",
]

_SUMMABLE = frozenset({"bytes_over_time", "bytes_rate", "sum_over_time", "rate", "count_over_time"})


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Condition on the line: `|= != |~ !~ |> !>` with texts of which one must match, or none for the negative ones."""

    operator: str
    texts: tuple[tuple[str, bool], ...]  # the text, and whether it is an address: ip("…")

    @property
    def is_negative(self) -> bool:
        """Return whether lines that match are dropped."""
        return self.operator[0] == "!"


@dataclass(frozen=True, slots=True)
class Extraction:
    """Label and the expression of its value, of `json` and `logfmt`."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Json:
    """Parser of JSON. Without extractions it extracts all values."""

    extractions: tuple[Extraction, ...] = ()


@dataclass(frozen=True, slots=True)
class Logfmt:
    """Parser of logfmt."""

    extractions: tuple[Extraction, ...] = ()
    is_strict: bool = False
    keeps_empty: bool = False


@dataclass(frozen=True, slots=True)
class Regexp:
    """Parser by the named groups of a regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Parser by a pattern such as `<ip> - <_>`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Unpack:
    """Parser of packed lines."""


@dataclass(frozen=True, slots=True)
class Decolorize:
    """Removal of colour codes."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Template of the line."""

    template: str


@dataclass(frozen=True, slots=True)
class LabelFormat:
    """Labels with a template, or with the name of the label that they replace."""

    formats: tuple[tuple[str, str, bool], ...]  # name, template or source, and whether it is a source


@dataclass(frozen=True, slots=True)
class Drop:
    """Removal of labels, each by its name or by a condition."""

    labels: tuple[str | Matcher, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Removal of all other labels."""

    labels: tuple[str | Matcher, ...]


@dataclass(frozen=True, slots=True)
class StringFilter:
    """Comparison of a label with a text or regular expression."""

    matcher: Matcher


@dataclass(frozen=True, slots=True)
class NumberFilter:
    """Comparison of a label with a number."""

    name: str
    operator: str
    value: float


@dataclass(frozen=True, slots=True)
class DurationFilter:
    """Comparison of a label with a duration in nanoseconds."""

    name: str
    operator: str
    value: int


@dataclass(frozen=True, slots=True)
class BytesFilter:
    """Comparison of a label with a size in bytes."""

    name: str
    operator: str
    value: int


@dataclass(frozen=True, slots=True)
class IpFilter:
    """Comparison of a label with addresses."""

    name: str
    operator: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Combination:
    """Two label filters, joined by `and` or `or`."""

    operator: str
    left: LabelCondition
    right: LabelCondition


LabelCondition = StringFilter | NumberFilter | DurationFilter | BytesFilter | IpFilter | Combination


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Stage that drops lines by their labels."""

    condition: LabelCondition


Stage = (
    LineFilter
    | Json
    | Logfmt
    | Regexp
    | Pattern
    | Unpack
    | Decolorize
    | LineFormat
    | LabelFormat
    | Drop
    | Keep
    | LabelFilter
)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Selector of streams with its stages."""

    matchers: tuple[Matcher, ...]
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True, slots=True)
class Unwrap:
    """Label whose value becomes the sample, its conversion, and filters after it."""

    name: str
    conversion: str = ""
    filters: tuple[LabelCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRange:
    """Log query with a range and an offset in nanoseconds."""

    query: LogQuery
    range_ns: int
    offset_ns: int = 0
    unwrap: Unwrap | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels of `by` or `without`."""

    labels: tuple[str, ...] = ()
    is_without: bool = False

    @property
    def is_single(self) -> bool:
        """Return whether all series become one without labels."""
        return not self.labels and not self.is_without


@dataclass(frozen=True, slots=True)
class RangeAggregation:
    """Leaf of a metric query: a function of the lines in each range."""

    operator: str
    log_range: LogRange
    grouping: Grouping | None = None
    parameter: float | None = None
    span: ClassVar[Span] = NOWHERE

    @property
    def is_summable(self) -> bool:
        """Return whether a sum of its series may be computed from one series for each group."""
        return self.grouping is None and self.operator in _SUMMABLE


@dataclass(frozen=True, slots=True)
class ZeroAsNan:
    """Divisor: a division by zero is NaN in Loki, and not infinite as in Prometheus."""

    expression: Query
    span: ClassVar[Span] = NOWHERE


Query = LogQuery | RangeAggregation | ZeroAsNan | Node
