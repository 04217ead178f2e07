"""Spans of Neve's own work: `with span("compact", table="logs"): …`, next to free while nobody asked for them.

Nothing of OpenTelemetry is imported here. Whoever sets telemetry up puts a tracer into the switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

Value = str | bool | int | float | None


class Span(Protocol):
    """A piece of work that is under way."""

    def set(self, **attributes: Value) -> None:
        """Say more about it; a value that is none says nothing."""


class RequestSpan(Span, Protocol):
    """A request that is being served."""

    def end_with(self, status: int, route: str) -> None:
        """Say how it was answered, and which of the paths it was."""


class Tracer(Protocol):
    """Makes spans that are sent."""

    def span(self, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """A span below the current one, which is the current one in the block."""

    def request(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> AbstractContextManager[RequestSpan]:
        """A span of a request, below the one that its headers name."""

    def ids(self) -> tuple[str, str] | None:
        """The ids of the current trace and span in hexadecimal digits; none outside of one."""


@dataclass
class Switch:
    """Who makes spans now; nobody while telemetry is off."""

    tracer: Tracer | None = None


class _Nothing:
    """Stands for spans that nobody asked for; one for all of them."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def set(self, **attributes: Value) -> None:
        """Nobody listens."""


SWITCH = Switch()
NOTHING = _Nothing()


def span(name: str, /, **attributes: Value) -> AbstractContextManager[Span]:
    """A span for what is done in the block; its attributes are named `neve.…`. An error in the block is noted in it."""
    tracer = SWITCH.tracer
    return NOTHING if tracer is None else tracer.span(name, attributes)


def trace_ids() -> tuple[str, str] | None:
    """The ids of the current trace and span; none outside of a span, and while telemetry is off."""
    tracer = SWITCH.tracer
    return None if tracer is None else tracer.ids()
