"""One cycle in memory: what is ready is decided, then what memory has no room for, and both are let go."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.model.tail import DECISIONS
from neve.tail.gather import MERGED
from neve.tail.memory.pressing import AtOnce, press
from neve.tail.memory.result import NONE
from neve.tail.memory.shipping import Load, pack
from neve.tail.tally import Count, Tally

if TYPE_CHECKING:
    from neve.tail.judging import Judging
    from neve.tail.memory.held import Held
    from neve.tail.memory.pressing import Allowance
    from neve.tail.memory.recall import Recall

EASED = 0.75  # of the bound: where spans fill it, the first traces go until no more than this is held
LARGE = 0.5  # of the bound: a trace that fills so much of it alone is worth a word


@dataclass
class Turn:
    """What a cycle decides, and what comes of it; nothing leaves the process before it is over."""

    held: Held
    recall: Recall
    judging: Judging
    allowance: Allowance
    bound: int
    rows: list[pa.Table] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    early: Count = field(default=NONE)
    large: list[str] = field(default_factory=list)  # traces, in hex

    @property
    def decisions(self) -> pa.Table:
        """All that was decided."""
        return pa.concat_tables(self.rows) if self.rows else DECISIONS.schema.empty_table()

    def ready(self) -> None:
        """Decide what is ready, and about late spans."""
        self._let_go(self.judging, list(self.judging.decided()))
        late = list(self.judging.late())
        if late:
            self._settle(pa.concat_tables(late))

    def relieve(self, *, everything: bool) -> None:
        """Decide the traces that were seen first, until what is held fits; or all, where nothing may stay."""
        while everything or self.held.bytes > self.bound:
            each = self.held.bytes / max(1, self.held.rows)
            spans = None if everything else math.ceil((self.held.bytes - EASED * self.bound) / each)
            if not press(self.recall.connection, spans):
                break
            rows = self._let_go(*self._early())
            self.early += Count(rows.num_rows, pc.sum(rows.column("span_count")).as_py() or 0)
            large = rows.filter(pc.greater(rows.column("span_count"), LARGE * self.bound / each))
            self.large += [] if everything else [one.hex() for one in large.column("trace_id").to_pylist()]

    def _early(self) -> tuple[Judging, list[pa.Table]]:
        now_us = self.judging.made.now_us
        policies, seconds = self.allowance.take(self.judging.since_us, now_us)
        judging = replace(
            self.judging,
            readiness=AtOnce(None, 0, moment_us=now_us),
            policies=policies,
            window_seconds=seconds,
            until_us=now_us + 1,
        )
        return judging, list(judging.decided())

    def _let_go(self, judging: Judging, decided: list[pa.Table]) -> pa.Table:
        self.recall.connection.execute(f"DELETE FROM {MERGED} WHERE {judging.is_ready}")
        return self._settle(pa.concat_tables(decided)) if decided else DECISIONS.schema.empty_table()

    def _settle(self, rows: pa.Table) -> pa.Table:
        self.recall.remember(rows, self.judging.made.now_us)
        self.loads += pack(self.held, rows)
        self.rows.append(self.tally.add(rows))
        return rows
