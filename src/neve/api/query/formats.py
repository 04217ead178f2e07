"""The forms of an answer, each written piece by piece: what it begins with, some rows, what it ends with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from neve.api.query.cells import json_columns, json_rows
from neve.api.query.filed import arrow, csv, parquet
from neve.query.output import distinct_names

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.api.query.errors import Failure
    from neve.api.query.question import Format
    from neve.query.statistics import Statistics

TEXT_BYTES = 256 * 1024


class Writer(Protocol):
    """Writes one answer."""

    piece_bytes: int  # how much of a result it wants at a time

    def begin(self, query_id: str, schema: pa.Schema) -> bytes:
        """What stands before the rows."""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Some rows."""

    def end(self, statistics: Statistics) -> bytes:
        """What stands behind the rows."""

    def fail(self, failure: Failure) -> bytes | None:
        """What stands behind the rows of an answer that is not whole; none where the form has no way to say so."""


class Json:
    """One object; statistics come last, when they are known."""

    piece_bytes = TEXT_BYTES

    def __init__(self) -> None:
        self._comma = ""

    def begin(self, query_id: str, schema: pa.Schema) -> bytes:
        """Its id and columns."""
        columns = [{"name": field.name, "type": str(field.type)} for field in schema]
        return f'{{"id":{_json(query_id)},"columns":{_json(columns)},"rows":['.encode()

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Each row is a list, in the order of the columns."""
        text = self._comma + _json(list(json_rows(batch)))[1:-1]  # all at once is three times as quick as one by one
        self._comma = ","
        return text.encode()

    def end(self, statistics: Statistics) -> bytes:
        """What it took."""
        return f'],"statistics":{_json(statistics.as_document())}}}\n'.encode()

    def fail(self, failure: Failure) -> bytes:
        """The object is whole, and says that the rows are not."""
        return f'],"error":{_json(failure.as_document)}}}\n'.encode()


class JsonLines:
    """An object a row."""

    piece_bytes = TEXT_BYTES

    def begin(self, _query_id: str, schema: pa.Schema) -> bytes:
        """Nothing; names are in each line."""
        names = (_json(name).replace("%", "%%") for name in distinct_names(schema.names))
        self._line = "{" + ",".join(f"{name}:%s" for name in names) + "}\n"
        return b""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """A line each."""
        return "".join(map(self._line.__mod__, zip(*map(_texts, json_columns(batch)), strict=True))).encode()

    def end(self, _statistics: Statistics) -> bytes:
        """Nothing."""
        return b""

    def fail(self, failure: Failure) -> bytes:
        """A last line that is no row."""
        return f"{_json({'error': failure.as_document})}\n".encode()


def writer_for(form: Format) -> Writer:
    """A writer of one answer."""
    match form:
        case "json":
            return Json()
        case "jsonl":
            return JsonLines()
        case "csv":
            return csv(TEXT_BYTES)
        case "parquet":
            return parquet()
    return arrow()


def _json(value: Any) -> str:
    return _ENCODER.encode(value)


def _texts(values: list[Any]) -> list[str]:
    """Each value as JSON: all at once where no value has parts, for JSON has no line breaks of its own."""
    if any(isinstance(value, dict | list) for value in values):
        return [_json(value) for value in values]
    return _BY_LINES.encode(values)[1:-1].split("\n")


_BY_LINES = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=("\n", ":"))
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
