"""Hints for SQL that does not work as written: words of other systems, other query languages, and similar names.

A hint names the function, column or clause to use instead. `query/sql/error_text.py` shows the place of an error. This
module is loaded by worker processes and must not import sqlglot.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

import duckdb

from neve.predicate.names import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LONGEST_WORD = 64  # characters
MINUTE = "date_trunc('minute', timestamp)"
# Functions of ClickHouse, MySQL, Spark, PostgreSQL, SQL Server, Loki and Prometheus, and what to write instead.
FUNCTION_HINTS = {
    **{
        f"tostartof{unit}": f"date_trunc('{unit}', timestamp)"
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
    },
    "tostartoffiveminutes": "time_bucket(INTERVAL 5 minutes, timestamp)",
    "tostartoffiveminute": "time_bucket(INTERVAL 5 minutes, timestamp)",
    "tostartofinterval": "time_bucket(INTERVAL 5 minutes, timestamp)",
    **dict.fromkeys(("window", "date_histogram", "interval_bin"), "time_bucket(INTERVAL 5 minutes, timestamp)"),
    **dict.fromkeys(("quantiles", "quantileexact", "quantiletdigest", "percentile"), "quantile_cont(x, 0.95)"),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "p50", "p95", "p99"), "quantile_cont(x, 0.95)"),
    "histogram_quantile": "quantile_cont(x, 0.95)",
    **dict.fromkeys(("uniq", "uniqexact", "uniqcombined", "approx_distinct"), "count(DISTINCT x)"),
    **dict.fromkeys(("countmerge", "counts"), "count(*)"),
    **{f"{name}if": f"{name}(x) FILTER (condition)" for name in ("sum", "avg", "min", "max", "any_value")},
    **dict.fromkeys(("grouparray", "collect_list"), "list(x)"),
    **dict.fromkeys(("groupuniqarray", "collect_set"), "list(DISTINCT x)"),
    **dict.fromkeys(("any", "anylast"), "any_value(x)"),
    "topk": "approx_top_k(x, 10)",
    **dict.fromkeys(("nvl", "isnull", "zeroifnull"), "ifnull(x, y)"),
    "iff": "if(condition, x, y)",
    "multiif": "CASE WHEN … THEN … END",
    "decode_oracle": "CASE x WHEN … THEN … END",
    **dict.fromkeys(("date_format", "formatdatetime", "to_char", "format_datetime"), "strftime(timestamp, '%Y-%m-%d')"),
    **dict.fromkeys(("str_to_date", "to_date", "parsedatetime", "parsedatetimebesteffort"), "strptime(x, '%Y-%m-%d')"),
    **dict.fromkeys(("from_unixtime", "fromunixtimestamp"), "to_timestamp(seconds)"),
    **dict.fromkeys(("fromunixtimestamp64milli", "timestamp_millis"), "epoch_ms(milliseconds)"),
    **dict.fromkeys(("unix_timestamp", "tounixtimestamp"), "epoch(timestamp)"),
    **dict.fromkeys(("unix_millis", "tounixtimestamp64milli"), "epoch_ms(timestamp)"),
    **dict.fromkeys(("getdate", "sysdate", "getutcdate", "unixtime", "clock_timestamp"), "now()"),
    **dict.fromkeys(("dateadd", "adddate", "timestampadd"), "timestamp + INTERVAL 1 hour"),
    **dict.fromkeys(("subdate", "subtractminutes", "subtracthours"), "timestamp - INTERVAL 1 hour"),
    **dict.fromkeys(("todate", "date"), "timestamp::DATE"),
    "todatetime": "x::TIMESTAMPTZ",
    **dict.fromkeys(("toint32", "toint64", "touint64", "to_number"), "x::BIGINT"),
    "tofloat64": "x::DOUBLE",
    **dict.fromkeys(("tostring", "to_string"), "x::VARCHAR"),
    "substring_index": "split_part(x, '.', 1)",
    **dict.fromkeys(("splitbychar", "splitbystring"), "string_split(x, '.')"),
    **dict.fromkeys(("positioncaseinsensitive", "charindex", "locate"), "instr(lower(x), 'word')"),
    **dict.fromkeys(("multisearchany", "hastoken", "match_phrase"), "has_term(message, 'word')"),
    **dict.fromkeys(("match", "regexp_like", "regexp", "rlike"), "regexp_matches(x, 'pattern')"),
    **dict.fromkeys(("extractall", "regexp_extractall"), "regexp_extract_all(x, 'pattern')"),
    **dict.fromkeys(("jsonextractstring", "get_json_object", "json_unquote", "visitparamextractstring"), "x->>'$.key'"),
    **dict.fromkeys(("mapkeys", "mapvalues"), "map_keys(x)"),
    **dict.fromkeys(("arrayjoin", "explode", "posexplode"), "unnest(x)"),
    "arraymap": "list_transform(x, y -> …)",
    "arrayfilter": "list_filter(x, y -> …)",
    "array_size": "len(x)",
    "size": "len(x)",
    **dict.fromkeys(("rate", "irate", "increase", "count_over_time", "sum_over_time"), f"count(*) … GROUP BY {MINUTE}"),
    **dict.fromkeys(("runningdifference", "delta"), "x - lag(x) OVER (ORDER BY timestamp)"),
    "neighbor": "lag(x) OVER (ORDER BY timestamp)",
    "safe_divide": "x / nullif(y, 0)",
    "if_null": "ifnull(x, y)",
    "label_replace": "regexp_replace(x, 'pattern', 'value')",
}
ZONE_HINT = (
    "write the query after it: SET TimeZone = 'Europe/Berlin'; SELECT …, or use `timezone` of a request, "
    "or x AT TIME ZONE 'Europe/Berlin'"
)
FILES_HINT = "queries read tables of the lake; `neve ingest files` adds files to them"
READ_ONLY_HINTS = {  # statements that do not read, with what to do instead
    **dict.fromkeys(
        ("INSERT", "MERGE", "IMPORT", "LOAD DATA"),
        "add telemetry with `neve ingest files`, or send it to `neve serve` by OTLP",
    ),
    **dict.fromkeys(("COPY", "EXPORT"), "write a result to a file: neve query -o errors.parquet 'SELECT …'"),
    **dict.fromkeys(("CREATE", "DECLARE"), "name a subquery: WITH errors AS (SELECT …) SELECT … FROM errors"),
    **dict.fromkeys(
        ("DELETE", "TRUNCATE", "DROP"),
        "`neve erase` deletes records of a person or an organization, and `neve maintain retention` old ones",
    ),
    **dict.fromkeys(("UPDATE", "ALTER"), "telemetry is never changed: compute the value in the SELECT"),
    **dict.fromkeys(
        ("ANALYZE", "VACUUM", "CHECKPOINT", "OPTIMIZE"), "`neve compact run` and `neve maintain all` do it"
    ),
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK", "START"), "leave it out: each statement reads one snapshot"),
    **dict.fromkeys(("PREPARE", "EXECUTE", "DEALLOCATE"), "use parameters: `-p name=value`, and :name in the SQL"),
    **dict.fromkeys(("ATTACH", "DETACH", "INSTALL", "LOAD"), FILES_HINT),
    **dict.fromkeys(
        ("USE", "PRAGMA", "CALL"), "`SHOW TABLES` lists the tables, and `DESCRIBE logs` the columns of one"
    ),
    **dict.fromkeys(("GRANT", "REVOKE"), "`neve keys create` gives an API key its organization and its scopes"),
    **dict.fromkeys(("KILL",), "Ctrl+C, or closing the connection, cancels a query"),
    **dict.fromkeys(
        ("SET", "RESET"), "queries have no settings but the time zone: SET TimeZone = 'Europe/Berlin'; SELECT …"
    ),
}
FILE_FUNCTION = re.compile(r"(?:read_\w+|parquet_\w+|glob|sniff_csv|s3|url|file)$")  # of DuckDB and ClickHouse
TIME_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
FILE_NAME = re.compile(r"\.(?:parquet|csv|jsonl?|ndjson|db|avro|arrow)(?:\.gz|\.zst)?$|://|/", re.IGNORECASE)
# Columns of OpenTelemetry's own names and of other systems, with the columns of Neve.
COLUMN_HINTS = {
    **dict.fromkeys(("body", "msg", "line", "log", "text", "content", "raw", "_raw", "logmessage"), ("message",)),
    **dict.fromkeys(("time", "ts", "_time", "@timestamp", "datetime", "date", "event_time"), ("timestamp",)),
    **dict.fromkeys(("starttime", "start_time", "start", "timestamptime", "observedtimestamp"), ("timestamp",)),
    **dict.fromkeys(("level", "severity", "severitytext", "loglevel", "log_level", "lvl"), ("severity_text",)),
    "severitynumber": ("severity_number",),
    **dict.fromkeys(("traceid", "trace"), ("trace_id",)),
    **dict.fromkeys(("spanid", "span"), ("span_id",)),
    **dict.fromkeys(("parentspanid", "parent_id", "parentid", "parent"), ("parent_span_id",)),
    **dict.fromkeys(("service", "servicename", "app", "application", "job", "source"), ("service_name",)),
    **dict.fromkeys(("name", "operation", "spanname", "span_name", "operationname"), ("operation_name", "metric_name")),
    **dict.fromkeys(("metric", "metricname", "__name__"), ("metric_name",)),
    **dict.fromkeys(("duration", "latency", "elapsed", "duration_nano", "durationnano", "took"), ("duration_ms",)),
    **dict.fromkeys(("kind", "spankind"), ("span_kind",)),
    **dict.fromkeys(("status", "statuscode", "error", "is_error"), ("status_code",)),
    "statusmessage": ("status_message",),
    **dict.fromkeys(("labels", "tags", "fields", "logattributes", "spanattributes", "attrs"), ("attributes",)),
    **dict.fromkeys(("resource", "resourceattributes", "resource_attributes", "host"), ("resource_attrs",)),
    **dict.fromkeys(("org", "organization", "tenant", "tenant_id", "org_id"), ("organization_id",)),
}
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "UNION", "WITH", "EXPLAIN"),
    *("DESCRIBE", "SHOW", "PIVOT", "UNPIVOT", "SUMMARIZE", "BETWEEN", "DISTINCT", "VALUES", "QUALIFY", "USING"),
)
LANGUAGES = (
    (
        "LogQL",
        re.compile(r"^\s*\{\s*\w+\s*(?:=~|!=|!~|=)\s*[\"'`][^{}]*\}|\b\w+_over_time\s*\(\s*\{|\brate\s*\(\s*\{"),
        "SELECT timestamp, message FROM logs WHERE service_name = 'cart' AND has_term(message, 'error')",
    ),
    (
        "TraceQL",
        re.compile(r"^\s*\{.*(?:&&|\|\||\bspan\.|\bresource\.|\bduration\b|\bstatus\b|\bname\b|\s\.\w).*\}", re.DOTALL),
        "SELECT trace_id, duration_ms FROM spans WHERE attributes['http.route'] = '/pay' AND duration_ms > 100",
    ),
    (
        "PromQL",
        re.compile(
            r"\[\d+(?:ms|[smhdwy])(?::\d*[smhdwy]*)?\]|^\s*[a-zA-Z_:][\w:]*\s*\{[^{}]*\}|"
            r"^\s*(?:sum|avg|min|max|count|topk|histogram_quantile|rate|irate|increase)\s*(?:by\s*\(|without\s*\(|\()"
        ),
        "SELECT date_trunc('minute', timestamp), avg(value) FROM metrics WHERE metric_name = 'cpu' GROUP BY 1",
    ),
)


def find_language(sql: str) -> tuple[str, str] | None:
    """Return the language of a text that is not SQL, with a similar statement.

    >>> find_language('rate(http_requests_total{job="x"}[5m])')[0], find_language("SELECT 1")
    ('PromQL', None)
    """
    start = sql[:2_000]
    if re.match(rf"\s*\(*\s*(?:{'|'.join(KEYWORDS)})\b", start, re.IGNORECASE):
        return None
    return next(((name, example) for name, pattern, example in LANGUAGES if pattern.search(start)), None)


def function_hint(name: str, known: Iterable[str]) -> str | None:
    """Return what to write instead of a function, or a similar name.

    >>> function_hint("toStartOfMinute", []), function_hint("lenght", ["length"])
    ("write date_trunc('minute', timestamp)", 'did you mean length?')
    """
    folded = fold(name)
    if FILE_FUNCTION.match(folded):
        return FILES_HINT
    if folded in FUNCTION_HINTS:
        return f"write {FUNCTION_HINTS[folded]}"
    close = _find_similar(folded, sorted(known), 0.75)
    return f"did you mean {close[0]}?" if close else None


def read_only_hint(kind: str, sql: str) -> str | None:
    """Return what to do instead of a statement that does not read.

    >>> read_only_hint("GRANT", "GRANT SELECT ON logs TO ada")
    '`neve keys create` gives an API key its organization and its scopes'
    """
    if kind in {"SET", "RESET"} and "zone" in fold(sql[:100]):
        return ZONE_HINT
    return READ_ONLY_HINTS.get(kind)


def path_hint(name: str) -> str | None:
    """Return the hint for a name of a table that is the path or the address of a file.

    >>> path_hint("s3://logs/x.parquet") == FILES_HINT, path_hint("lgs")
    (True, None)
    """
    return FILES_HINT if FILE_NAME.search(name[:1_000]) else None


def column_hint(name: str, tables: Mapping[str, Iterable[str]]) -> str | None:
    """Return the column that a name means in the tables of a statement, and the command that lists columns.

    >>> column_hint("body", {"logs": ["message", "timestamp"]})
    'did you mean message? `DESCRIBE logs` lists the columns'
    """
    if not tables:
        return None
    columns = {fold(column): column for named in tables.values() for column in named}
    folded = fold(name)
    meant = [column for column in COLUMN_HINTS.get(folded, ()) if column in columns]
    near = meant[:1] or _find_similar(folded, list(columns), 0.7)
    owners = [table for table, named in tables.items() if near and columns[near[0]] in named] or list(tables)
    question = f"did you mean {columns[near[0]]}? " if near else ""
    return f"{question}`DESCRIBE {owners[0]}` lists the columns"


def quoting_hint(name: str, sql: str) -> str | None:
    """Return the hint for a text or a unit of time that DuckDB takes for a column, because of its quotes.

    >>> quoting_hint("cart", 'WHERE service_name = "cart"'), quoting_hint("hour", "date_trunc(hour, t)")
    ("a text has single quotes: 'cart'", "a unit of time is a text: 'hour'")
    """
    if fold(name) in TIME_UNITS:
        return f"a unit of time is a text: '{name}'"
    return f"a text has single quotes: '{name}'" if f'"{name}"' in sql else None


def keyword_hint(words: Iterable[str]) -> str | None:
    """Return the keyword that one of some words is similar to, the first one that is.

    >>> keyword_hint(["1", "FRM"]), keyword_hint(["logs"])
    ('did you mean FROM?', None)
    """
    for word in words:
        near = _find_similar(word.upper(), KEYWORDS, 0.75)
        if near and near[0] != word.upper():
            return f"did you mean {near[0]}?"
    return None


def _find_similar(word: str, known: Sequence[str], cutoff: float) -> list[str]:
    """Return the most similar word. Long words are not compared: that takes time in proportion to their length."""
    return get_close_matches(word, known, n=1, cutoff=cutoff) if len(word) <= LONGEST_WORD else []


@cache
def duckdb_functions() -> frozenset[str]:
    """Return the names of all functions of DuckDB, allowed or not."""
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    return frozenset(fold(name) for (name,) in rows)
