"""Times of log records: calendar times, formats of `strptime`, times without a year and without an offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.config import LinesConfig
from neve.ingest.files.generic_records import connect
from neve.ingest.files.sql_values import NANOS, parse_calendar
from neve.lake.duckdb import quote_literal

if TYPE_CHECKING:
    from neve.ingest.files.log_formats import LogFormat

DAY_NANOS = 86_400 * NANOS["s"]
LEAP_YEARS = 8  # the longest time between two days of February 29


@dataclass(frozen=True)
class LineRules:
    """Rules for files of lines. A time without a year belongs to the last year before `reference_unix_nano`."""

    config: LinesConfig = field(default_factory=LinesConfig)
    reference_unix_nano: int = 0


def parse_times(log: LogFormat, texts: pa.StringArray, rules: LineRules) -> pa.Int64Array:
    """Return the times of records in nanoseconds, null where a text is none."""
    engine = connect()
    engine.register("given_times", pa.table({"text": texts}))
    expression = _time_expression(log, rules)
    query = f"SELECT CASE WHEN nanos >= 0 THEN nanos END FROM (SELECT {expression} AS nanos FROM given_times)"  # noqa: S608
    column = engine.execute(query).to_arrow_table().column(0)
    return column.combine_chunks().cast(pa.int64())


def _time_expression(log: LogFormat, rules: LineRules) -> str:
    calendar = _localize_calendar(rules.config.timezone)
    if not log.times:
        return calendar
    if not log.has_year:
        return f"CASE WHEN text[1:1] BETWEEN '0' AND '9' THEN {calendar} ELSE {_guess_year(log, rules)} END"
    formats = f"[{', '.join(map(quote_literal, log.times))}]"
    zoned = any("%z" in form for form in log.times)
    value = f"try_strptime(text, {formats})"
    parsed = f"epoch_ns({value if zoned else _localize(value, rules.config.timezone)})"
    return f"CASE WHEN regexp_matches(text, '^\\d{{4}}-') THEN {calendar} ELSE {parsed} END"


def _localize(timestamp: str, timezone: str) -> str:
    return timestamp if timezone == "UTC" else f"timezone({quote_literal(timezone)}, {timestamp})"


def _localize_calendar(timezone: str) -> str:
    """Return the time of a calendar text, in the configured time zone if it has no offset."""
    utc = parse_calendar("upper(text)")
    if timezone == "UTC":
        return utc
    # The offset of the zone at a local time is the difference between its two readings.
    local = "TRY_CAST(regexp_replace(text, '[.,]\\d+', '') AS TIMESTAMP)"
    shift = f"epoch_ns(timezone({quote_literal(timezone)}, {local})) - epoch_ns({local})"
    return f"CASE WHEN regexp_matches(text, '(Z|[+-]\\d\\d:?\\d\\d)$') THEN {utc} ELSE {utc} + {shift} END"


def _guess_year(log: LogFormat, rules: LineRules) -> str:
    """Return the last such time that is at most a day after the reference, which allows for other time zones."""
    reference = datetime.fromtimestamp(rules.reference_unix_nano // NANOS["s"], tz=UTC)
    latest = rules.reference_unix_nano + DAY_NANOS
    candidates = []
    for year in range(reference.year + 1, reference.year - LEAP_YEARS - 1, -1):
        parsed = f"try_strptime('{year} ' || text, {quote_literal('%Y ' + log.times[0])})"
        nanos = f"epoch_ns({_localize(parsed, rules.config.timezone)})"
        candidates.append(f"CASE WHEN {nanos} <= {latest} THEN {nanos} END")
    return f"coalesce({', '.join(candidates)})"
