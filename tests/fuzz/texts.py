"""Texts that are changed by what they are made of: JSON documents, CSV and lines, SQL statements."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.otlp.damage import damaged
from tests.query.attacks import AROUND, LOOKALIKES, POSITIONS

if TYPE_CHECKING:
    import random

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(10**30), 1.5e308, float("nan"), float("inf")),
    *("", "0", "x" * 300, "\x00", "\ud800", "NaN", "1e400", "2025-01-01T00:00:00Z", "9999-99-99", "-1", "0x1F"),
    *([], {}, [[]], [None], {"": None}, {"stringValue": 1}, {"intValue": "x"}, {"arrayValue": {"values": [{}]}}),
)
DEPTHS = (1, 5, 40, 70, 2000)
WORDS = (
    *("SELECT", "FROM", "WHERE", "WITH", "RECURSIVE", "AS", "JOIN", "LATERAL", "UNION ALL", "PIVOT", "UNNEST", "OVER"),
    *("GROUP BY", "ORDER BY", "LIMIT", "HAVING", "QUALIFY", "WINDOW", "EXPLAIN", "DESCRIBE", "CASE WHEN", "END"),
    *("(", ")", "[", "]", "{", "}", ",", ";", ".", "::", ":=", "->", "=>", "*", "-", "NOT", "'", '"', "$$", "--", "/*"),
    *("logs", "spans", "telemetry.metrics", "message", "attributes['a']", "NULL", "1e999", "0x", "?", "$1", "$a", "\0"),
    *(
        "count(*)",
        "range(9)",
        "COLUMNS(*)",
        "read_text('/etc/passwd')",
        "list_transform([1], x -> x)",
        "INTERVAL 1 DAY",
    ),
    *("TIMESTAMP 'x'", "DATE '2024-02-30'", "from_json('{}', '{\"a\":\"INT\"}')", "'a' LIKE '%_%'", "E'\\x'", "\u212a"),
    *("DECIMAL(99,9)", "STRUCT(a INT)[]", "TRY_CAST(1 AS", "EXCLUDE (x)", "FILTER (WHERE true)", "TABLESAMPLE 9%"),
)
TOKENS = re.compile(r"\s+|\w+|.", re.DOTALL)
LEAVES = (
    *(
        "1",
        "-1",
        "1e999",
        "NULL",
        "'x'",
        "message",
        "duration_ms",
        "attributes['k']",
        "now()",
        "$1",
        "[1, 2]",
        "{'a': 1}",
    ),
    *(
        "count(*)",
        "DATE '2024-01-01'",
        "INTERVAL 5 MINUTE",
        "timestamp",
        "x'ff'",
        "service_name",
        "*",
        "l.message",
        "?",
    ),
)
OPERATORS = (*"+-*/%=<>", "||", "AND", "OR", "IS DISTINCT FROM", "LIKE", "SIMILAR TO", "//", "**", "<<", "IN", "^@")
FUNCTIONS = (
    *(
        "abs",
        "lower",
        "count",
        "sum",
        "max",
        "list",
        "json_extract",
        "date_trunc",
        "regexp_replace",
        "repeat",
        "unnest",
    ),
    *("from_json", "list_transform", "struct_pack", "coalesce", "quantile_cont", "string_agg", "printf", "nosuch"),
)


def mutate_json(seeded: random.Random, text: bytes) -> bytes:
    """A JSON text that is changed in one value, one key or a few bytes."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return damaged(seeded, text)
    if seeded.random() < 0.2 or not isinstance(document, dict | list):
        return damaged(seeded, text)
    try:
        words = json.dumps(_changed(seeded, document), ensure_ascii=seeded.random() < 0.5)
    except (ValueError, RecursionError):
        return damaged(seeded, text)
    if seeded.random() < 0.1:  # the same key twice
        words = words.replace(", ", f', "{seeded.choice(("time", "resourceLogs", "key"))}": 1, ', 1)
    return words.encode("utf-8", "surrogatepass")


def mutate_lines(seeded: random.Random, text: bytes) -> bytes:
    """Lines of CSV or JSON: some changed, doubled, cut, or moved."""
    lines = text.split(b"\n")
    place = seeded.randrange(len(lines))
    match seeded.randrange(6):
        case 0:
            lines[place] = mutate_json(seeded, lines[place])
        case 1:
            lines[place:place] = [lines[place]] * seeded.choice((1, 2, 100))
        case 2:
            lines[place] = lines[place].replace(b",", seeded.choice((b"", b",,", b'"', b"\t", b"\r", b"\x00")), 1)
        case 3:
            del lines[place]
        case 4:
            lines.insert(place, seeded.choice((b"", b"{}", b"[]", b"null", b'"', b"\xff\xfe", b"," * 500, b"[" * 3000)))
        case _:
            return damaged(seeded, text)
    return b"\n".join(lines)


def mutate_statement(seeded: random.Random, text: bytes) -> bytes:
    """A statement of which a few words are changed, or one that the grammar makes."""
    statement = text.decode("utf-8", "replace")
    match seeded.randrange(8):
        case 0:
            statement = make_statement(seeded)
        case 1:
            statement = seeded.choice(AROUND).replace("{s}", statement).replace("{n}", "n")
        case 2:
            statement = seeded.choice(POSITIONS).format(t=statement[:40].replace('"', '""'), n="n")
        case 3:
            letter, other = seeded.choice(list(LOOKALIKES.items()))
            statement = statement.replace(letter, other, seeded.choice((1, -1)))
        case _:
            statement = _with_other_words(seeded, statement)
    return statement.encode("utf-8", "replace")


def make_statement(seeded: random.Random) -> str:
    """A statement of the grammar's making; most are read, some are even answered."""
    items = ", ".join(_expression(seeded, 4) for _ in range(seeded.randint(1, 3)))
    source = seeded.choice(("logs", "spans AS l", "metrics, logs", "range(5)", f"({'SELECT 1 AS x'}) AS q", "nothing"))
    parts = [f"SELECT {items} FROM {source}"]
    for clause in ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT"):
        if seeded.random() < 0.3:
            parts.append(f"{clause} {_expression(seeded, 3)}")
    if seeded.random() < 0.2:
        parts.insert(
            0, f"WITH RECURSIVE w AS ({make_statement(seeded)})" if seeded.random() < 0.3 else "WITH w AS (FROM logs)"
        )
    return " ".join(parts)


def _expression(seeded: random.Random, levels: int) -> str:
    if levels == 0 or seeded.random() < 0.25:
        return seeded.choice(LEAVES)
    inner, other = _expression(seeded, levels - 1), _expression(seeded, levels - 1)
    shapes = (
        f"({inner} {seeded.choice(OPERATORS)} {other})",
        f"{seeded.choice(FUNCTIONS)}({inner}, {other})",
        f"{seeded.choice(FUNCTIONS)}({inner})",
        f"CASE WHEN {inner} THEN {other} END",
        f"CAST({inner} AS {seeded.choice(('INT', 'VARCHAR', 'STRUCT(a INT)', 'DECIMAL(9,2)', 'MAP(INT, INT)', 'x'))})",
        f"(SELECT {inner} FROM logs WHERE {other})",
        f"sum({inner}) OVER (PARTITION BY {other} ROWS 3 PRECEDING)",
        f"{inner}[{other}]",
        f"list_transform({inner}, v -> {other})",
        f"{inner} BETWEEN {other} AND 1",
    )
    return seeded.choice(shapes)


def _with_other_words(seeded: random.Random, statement: str) -> str:
    tokens = TOKENS.findall(statement) or [""]
    for _ in range(seeded.randint(1, 4)):
        place = seeded.randrange(len(tokens))
        match seeded.randrange(5):
            case 0:
                tokens[place] = f" {seeded.choice(WORDS)} "
            case 1:
                tokens.insert(place, f" {seeded.choice(WORDS)} ")
            case 2:
                tokens[place] = tokens[place] * seeded.choice((2, 40, 3000))
            case 3:
                other = seeded.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case _:
                tokens[place] = ""
    return "".join(tokens)[:200_000]


def _changed(seeded: random.Random, value: Any) -> Any:
    """The value with another one somewhere inside."""
    if isinstance(value, dict) and value and seeded.random() < 0.85:
        key = seeded.choice(list(value))
        if seeded.random() < 0.1:
            return {**value, seeded.choice(("", "time", "resourceSpans", "a" * 300, "\x00", key.upper())): value[key]}
        return {**value, key: _changed(seeded, value[key])}
    if isinstance(value, list) and value and seeded.random() < 0.85:
        place = seeded.randrange(len(value))
        if seeded.random() < 0.2:
            return value * seeded.choice((2, 30))
        return [*value[:place], _changed(seeded, value[place]), *value[place + 1 :]]
    if seeded.random() < 0.15:
        for _ in range(seeded.choice(DEPTHS)):
            value = [value] if seeded.random() < 0.5 else {"values": value}
        return value
    return seeded.choice(ODD_VALUES)
