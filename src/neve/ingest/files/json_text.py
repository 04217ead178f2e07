"""JSON files whose documents span lines: find the documents, or the line and column of the error."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from neve.errors import FileTooLarge
from neve.otlp import Rejected
from neve.otlp.json import measure_json

SPACE = re.compile(r"\s*")
LOOK_AT_LINES = 200
LOOK_AT_BYTES = 256 * 1024
MAX_VALUES = 20_000_000  # Python's reader makes an object of each
OPENING = (b"{", b"[")
ENCODING = "json"


@dataclass(frozen=True)
class SpanningDocuments:
    """Documents with the number of their first line, from 0, and the rest that can't be read."""

    texts: tuple[str, ...]
    lines: tuple[int, ...]
    rejected: tuple[Rejected, ...] = ()


def spans_lines(data: bytes) -> bool:
    r"""Return whether a text is a list of records, or a document of several lines.

    A truncated line is not such a document: most lines after it are complete documents.

    >>> spans_lines(b'{\n "a": 1\n}'), spans_lines(b'{"a": 1}\n{"a"'), spans_lines(b'{"a": \n{"b": 1}\n{"c": 1}')
    (True, False, False)
    """
    text = data.lstrip()
    if not text.startswith(OPENING):
        return False
    head = text[:LOOK_AT_BYTES]
    first, *others = [line for line in head.splitlines() if line.strip()][:LOOK_AT_LINES]
    if text.startswith(b"["):
        return not others or not _is_document(first)
    if not others or _is_document(first):
        return False
    return sum(map(_is_document, others)) * 2 < len(others)


def _is_document(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except (ValueError, RecursionError):
        return False


def split_documents(data: bytes) -> SpanningDocuments:
    """Split a text into its documents. From the first error on it is one rejection, with the line and the column.

    Raises `FileTooLarge` for a text with more values than Python's reader should hold in memory.
    """
    if measure_json(data).values > MAX_VALUES:
        raise FileTooLarge(
            f"it is one JSON text with more than {MAX_VALUES} values",
            hint="write one record per line, or split the file",
        )
    text = data.decode(errors="replace")
    decoder = json.JSONDecoder()
    texts: list[str] = []
    lines: list[int] = []
    at, line, counted = _skip(text, 0), 0, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        try:
            _value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            detail = f"malformed JSON at {_place(error, line)}"
            bad = Rejected("malformed_document", detail, line, text[at:].encode(), ENCODING)
            return SpanningDocuments(tuple(texts), tuple(lines), (bad,))
        texts.append(text[at:end])
        lines.append(line)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at : at + 1] == "," else at  # some tools join documents by commas
    return SpanningDocuments(tuple(texts), tuple(lines))


def _place(error: Exception, line: int) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
    return f"line {line + 1}: it is nested too deeply"


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at
