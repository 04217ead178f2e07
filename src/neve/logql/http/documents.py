"""Results as Loki's JSON: streams with their lines, vectors and matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.promql.http.documents import Answer, answer_result, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.logql.pipeline.entry import Entry
    from neve.promql.engine import Result

__all__ = ["PlainAnswer", "answer_samples", "answer_streams", "group_streams"]

CATEGORIES = "categorize-labels"


def group_streams(entries: Sequence[Entry], *, has_categories: bool) -> list[dict[str, Any]]:
    """Return lines by their labels, in order of their first line.

    With categories, only the labels of streams group them, and each line has the others.
    """
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for entry in entries:
        labels = _stream_labels(entry) if has_categories else entry.labels()
        stream = found.setdefault(tuple(sorted(labels.items())), {"stream": labels, "values": []})
        value: list[Any] = [str(entry.time_ns), entry.line]
        if has_categories:
            parsed = entry.parsed | dict(entry.errors())
            parts = {"structuredMetadata": entry.metadata, "parsed": parsed}
            value.append({name: pairs for name, pairs in parts.items() if pairs})
        stream["values"].append(value)
    return list(found.values())


def _stream_labels(entry: Entry) -> dict[str, str]:
    hidden = entry.deleted | entry.parsed.keys()
    return {name: value for name, value in entry.stream.items() if name not in hidden}


def answer_streams(entries: Sequence[Entry], *, has_categories: bool) -> Answer:
    """Return the answer with lines. Readers that stream need the type and the flags first."""
    flags = f'"encodingFlags":["{CATEGORIES}"],' if has_categories else ""
    head = f'{{"resultType":"streams",{flags}"result":['
    tail = f'],"stats":{{"summary":{{"totalEntriesReturned":{len(entries)}}}}}}}'
    return Answer(head, group_streams(entries, has_categories=has_categories), tail=tail)


def answer_samples(result: Result, time_ns: int) -> Answer:
    """Return the answer with series, or a scalar."""
    return answer_result(result, time_ns // 1_000_000)


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """Document that some paths send without an envelope."""

    document: dict[str, Any]
    items: Sequence[Any] = ()

    def pieces(self) -> Iterator[str]:
        """Yield the document."""
        yield to_json(self.document)
