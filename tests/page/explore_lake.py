"""Records of an organization of its own for the screens of traces, services and SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.model.signals import Signal
from tests.explore.traces import (
    CHECKOUT,
    ERROR,
    HOSTILE,
    make_checkout,
    make_logs,
    make_span,
    pack_spans,
    put_decisions,
)
from tests.query.lakes import put

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.page.demo_lake import DemoLake

EXPLORE = "explore"
EXPLORE_RANGE = "from=2025-10-09T08:00:00.000Z&to=2025-10-09T10:00:00.000Z"
SMALL_TRACE, LARGE_TRACE, CYCLE_TRACE, MIDDLE_TRACE = (bytes([one]) * 16 for one in (0xA1, 0xA2, 0xA3, 0xA4))
SMALL, MIDDLE, LARGE = 1000, 10_000, 100_000
DEEP = 1200  # levels of a chain within the large traces


def fill_explore_lake(lake: DemoLake) -> None:
    """Commit a checkout with logs and decisions, traces of three sizes, and one whose parents form a cycle."""
    put(lake.lake, EXPLORE, Signal.TRACES, pack_spans(make_checkout()))
    put(lake.lake, EXPLORE, Signal.LOGS, make_logs())
    put_decisions(lake.lake, [(EXPLORE, CHECKOUT, 0), (EXPLORE, CHECKOUT, 1)])
    put(lake.lake, EXPLORE, Signal.TRACES, pack_spans({"small": make_chain(SMALL_TRACE, SMALL)}), batch="-small")
    put(lake.lake, EXPLORE, Signal.TRACES, pack_spans({"large": make_chain(LARGE_TRACE, LARGE)}), batch="-large")
    put(lake.lake, EXPLORE, Signal.TRACES, pack_spans({"middle": make_chain(MIDDLE_TRACE, MIDDLE)}), batch="-middle")
    cycle = [make_span(1, 2, CYCLE_TRACE, name=HOSTILE), make_span(2, 1, CYCLE_TRACE), make_span(3, 99, CYCLE_TRACE)]
    put(lake.lake, EXPLORE, Signal.TRACES, pack_spans({"odd": cycle}), batch="-cycle")


def make_chain(trace: bytes, count: int) -> list[Span]:
    """Return a root, a chain of calls below it, and many short calls of the root. The last of the chain failed."""
    depth = min(DEEP, count // 2)
    root = make_span(1, 0, trace, start=0, stop=count, name="root")
    chain = [
        make_span(
            one, one - 1, trace, start=one / 1000, stop=count / 2, status=ERROR if one == depth else 0, name="chain"
        )
        for one in range(2, depth + 1)
    ]
    calls = [
        make_span(one, 1, trace, start=one / 2, stop=one / 2 + 3, name="call") for one in range(depth + 1, count + 1)
    ]
    return [root, *chain, *calls]
