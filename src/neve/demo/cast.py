"""The cast: the traces that a lap consists of, each moved in time as a whole, so that its spans still fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.demo.batch import group_by
from neve.demo.template import ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.demo.pace import Pace
    from neve.demo.span import Span
    from neve.demo.template import Ink


@dataclass(frozen=True)
class Cast:
    """Spans in the order in which they are sent, and what becomes of the times and ids that they had."""

    spans: tuple[Span, ...]
    moves: Mapping[bytes, int]  # by trace: what is added to its times
    numbers: Mapping[bytes, int]  # by span

    def trace_id(self, before: bytes, ink: Ink) -> bytes:
        """The id of a trace in every lap; none stays none."""
        return ink.identity(before[ID_BYTES:]) if before else b""

    def span_id(self, before: bytes, ink: Ink) -> bytes:
        """The id of a span in every lap: its number, which is what a table can be looked through for."""
        if not before:
            return b""
        number = self.numbers.get(before)
        return ink.identity(before[ID_BYTES:] if number is None else number.to_bytes(ID_BYTES, "big"))


def cast(spans: Iterable[Span], records: int, pace: Pace) -> Cast:
    """Take whole traces, those that end first, until there are as many spans; each ends when its first one's turn is.

    Before that it would be of the future.
    """
    traces = sorted(group_by(spans, lambda span: span.trace_id).values(), key=_end)
    chosen: list[Span] = []
    moves: dict[bytes, int] = {}
    for trace in traces:
        if len(chosen) >= records:
            break
        moves[trace[0].trace_id] = pace.at(len(chosen)) - _end(trace)
        chosen += sorted(trace, key=lambda span: span.end)
    return Cast(tuple(chosen), moves, {span.span_id: number for number, span in enumerate(chosen)})


def _end(trace: list[Span]) -> int:
    return max(span.end for span in trace)
