"""Texts of errors in a statement: what is wrong, the line with a caret below the place, and a hint."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot.errors import ParseError, TokenError

from neve.errors import QueryError
from neve.query.sql.hints import column_hint, find_language, keyword_hint, quoting_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlglot.errors import SqlglotError

WIDTH = 100  # characters of a line around the place of an error
MISSING_COLUMN = re.compile(
    r'Referenced column "(?P<a>[^"]+)" (?:was )?not found|does not have a column named "(?P<b>[^"]+)"'
)
MISSING_TABLE = re.compile(r'Referenced table "([^"]+)" not found')
# A field of the value of an attribute: `attributes.http.route` for `attributes['http.route']`.
ATTRIBUTE_PATH = re.compile(
    r"Cannot extract field '(?P<second>[^']+)' from expression "
    r"\"map_extract_value\((?P<column>\w+), '(?P<first>[^']+)'\)"
)
NEAR = re.compile(r'syntax error at or near "([^"]+)"')
# Syntax of other systems: a pattern in the statement, and what to write instead.
CLAUSE_HINTS = (
    (re.compile(r"`"), 'write names without quotes, or in double quotes: "message"'),
    (
        re.compile(r"\bLIMIT\s+\d+\s+BY\b", re.IGNORECASE),
        "write QUALIFY row_number() OVER (PARTITION BY service_name ORDER BY timestamp) <= 10",
    ),
    (re.compile(r"\bSELECT\s+TOP\s+\d", re.IGNORECASE), "write LIMIT at the end: SELECT … LIMIT 10"),
    (re.compile(r"\bquantiles?\w*\s*\([\d.,\s]+\)\s*\(", re.IGNORECASE), "write quantile_cont(x, 0.95)"),
    (re.compile(r"\bPREWHERE\b", re.IGNORECASE), "write WHERE"),
    (re.compile(r"\bLATERAL\s+VIEW\b", re.IGNORECASE), "write FROM t, unnest(t.list) AS u(x)"),
    (re.compile(r"\s--?\s*\d+(?:ms|[smhdw])\b"), "write an interval: now() - INTERVAL 1 hour"),
    (re.compile(r"\bFINAL\b", re.IGNORECASE), "leave FINAL out: rows are never replaced"),
    (re.compile(r"\bSETTINGS\s+\w+\s*=", re.IGNORECASE), "leave SETTINGS out"),
    (
        re.compile(
            r"\|\s*(?:stats|where|summarize|eval|fields|project|sort|head|limit|count|timechart)\b", re.IGNORECASE
        ),
        "SQL has no pipes: SELECT service_name, count(*) FROM logs WHERE … GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    ),
    (re.compile(r"==|&&|\|\|\s*\w+\s*(?:>|<|=)"), "write =, AND and OR"),
)


def clause_hint(sql: str) -> str | None:
    """Return the hint for syntax of another system in a statement.

    >>> clause_hint("SELECT `a` FROM b")
    'write names without quotes, or in double quotes: "message"'
    """
    return next((hint for pattern, hint in CLAUSE_HINTS if pattern.search(sql)), None)


def syntax_error(sql: str, error: SqlglotError) -> QueryError:
    """Return the error of a text that can't be parsed."""
    language = find_language(sql)
    if language is not None:
        return other_language(language)
    found: dict[str, Any] = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    word = str(found.get("highlight") or "")
    if not word:
        first = (str(error).splitlines() or [""])[0].rstrip(".")
        reason = "a quote is not closed" if isinstance(error, TokenError) and _has_open_quote(sql) else first
        return QueryError(f"syntax error: {reason}", hint=clause_hint(sql))
    before = str(found["start_context"])
    words = re.findall(r"\w+", before)
    first_hint = keyword_hint(words[:1])
    if len(words) == 1 and first_hint:  # the first word is wrong, not the one that follows it
        return QueryError(f"syntax error near {words[0]!r}{excerpt(sql, sql.index(words[0]))}", hint=first_hint)
    line = sql.splitlines()[int(found["line"]) - 1] if sql.splitlines() else ""
    column = max(0, int(found["col"]) - len(word))
    start = sum(len(text) for text in sql.splitlines(keepends=True)[: int(found["line"]) - 1]) + min(column, len(line))
    hint = clause_hint(sql)
    last = re.search(r"(\w+)\W*$", before)
    if word == "`":
        start = sql.index(word)
    elif hint is None and last is not None and keyword_hint(last.groups()):  # `FRM logs` fails at the second word
        start, word = start - len(before) + last.start(), last[1]
    return QueryError(f"syntax error near {word!r}{excerpt(sql, start)}", hint=hint or keyword_hint([word]))


OWN_LANGUAGES = {"PromQL": "--promql", "LogQL": "--logql", "TraceQL": "--traceql"}  # with the options of the command


def other_language(language: tuple[str, str]) -> QueryError:
    """Return the error of a text in another query language."""
    name, example = language
    own = OWN_LANGUAGES.get(name)
    option = f"`neve query {own}` evaluates {name}; in SQL, " if own else ""
    return QueryError(f"this looks like {name}, expected SQL", hint=f"{option}for example: {example}")


def excerpt(sql: str, start: int) -> str:
    r"""Return the position of an error, its line, and a caret below it.

    >>> print(excerpt("SELECT 1\nFRM logs", 9))
     (line 2, column 1)
      FRM logs
      ^
    """
    before = sql[:start]
    number, column = before.count("\n") + 1, start - (before.rfind("\n") + 1)
    line = sql.splitlines()[number - 1] if sql.splitlines() else ""
    left = max(0, column - WIDTH // 2) if len(line) > WIDTH else 0
    shown = "".join(letter if letter.isprintable() else " " for letter in line[left : left + WIDTH])
    dots = "…" if left else ""
    caret = " " * (column - left + len(dots)) + "^"
    return f" (line {number}, column {column + 1})\n  {dots}{shown}\n  {caret}"


def explain_engine_error(error: QueryError, sql: str, tables: Mapping[str, Iterable[str]]) -> QueryError:
    """Return an error of an engine with the place in the statement that the user sent, and a hint.

    Engines report positions in the statement that Neve wrote. So the place is found by the name in the message.
    """
    missing = MISSING_COLUMN.search(error.message)
    if missing is not None:
        name = missing["a"] or missing["b"]
        hint = quoting_hint(name, sql) or column_hint(name, tables) or error.hint
        return type(error)(f"unknown column {name!r}{_place(sql, name)}", hint=hint)
    qualifier = MISSING_TABLE.search(error.message)
    if qualifier is not None:
        name = qualifier[1]
        return type(error)(f"unknown table or column {name!r}{_place(sql, name)}", hint=column_hint(name, tables))
    path = ATTRIBUTE_PATH.search(error.message)
    if path is not None:
        column, first, second = path["column"], path["first"], path["second"]
        return type(error)(
            f"{column}.{first}.{second} is not a column{_place(sql, column)}",
            hint=f"an attribute has its whole name in brackets: {column}['{first}.{second}']",
        )
    near = NEAR.search(error.message)
    if near is not None:
        return type(error)(f"syntax error near {near[1]!r}{_place(sql, near[1])}", hint=clause_hint(sql) or error.hint)
    return error


def add_place(error: QueryError, sql: str, name: str) -> QueryError:
    """Return an error with the place of a name in the statement."""
    return QueryError(f"{error.message}{_place(sql, name)}", hint=error.hint)


def _place(sql: str, name: str) -> str:
    """Return the excerpt at the first place of a name, or nothing if it is not in the statement."""
    found = re.search(rf"(?<!\w)\"?{re.escape(name)}(?!\w)", sql, re.IGNORECASE)
    return excerpt(sql, found.start()) if found is not None else ""


def _has_open_quote(sql: str) -> bool:
    return sql.count("'") % 2 == 1 or sql.count('"') % 2 == 1
