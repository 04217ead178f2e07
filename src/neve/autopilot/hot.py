"""The queries that a canary asks: those of the logs that read a table, kind by kind, and the user's own."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from neve.autopilot.canary.allowed import ENGINE
from neve.autopilot.canary.statement import HotQuery
from neve.autopilot.parse.query import LeftOut, Unparsed, parsed
from neve.autopilot.parse.tables import Tables
from neve.autopilot.patterns import DIALECTS
from neve.autopilot.privacy import fingerprint, redacted
from neve.autopilot.sources.record import LoggedQuery
from neve.autopilot.workload import Query, Test

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

Kinds = dict[tuple[str, str], list[Query]]
Question = tuple[str, tuple[Test, ...]]  # a text, and what it asks without saying it: whose rows


def hot_queries(table: str, queries: Iterable[Query], most: int) -> list[HotQuery]:
    """Some queries of each kind, the newest first; together those of a kind weigh as much as it was asked.

    A scan report has no text to ask, and is left out.
    """
    kinds: Kinds = defaultdict(list)
    for query in sorted(queries, key=lambda one: (one.at, one.query_id), reverse=True):
        if query.text and any(use.table == table for use in query.uses):
            kinds[query.engine, fingerprint(query.text, DIALECTS[query.engine])].append(query)
    heaviest = dict(sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0]))[:most])
    chosen = _chosen(heaviest, most)
    return [
        HotQuery(text, len(asked) / len(chosen[kind]), DIALECTS[kind[0]], implied)
        for kind, asked in heaviest.items()
        for text, implied in chosen[kind]
    ]


def _chosen(kinds: Kinds, most: int) -> dict[tuple[str, str], list[Question]]:
    """One question of each kind, then a second of each that has one, and so on until there are enough."""
    texts = {kind: list(dict.fromkeys((query.text, query.implied) for query in asked)) for kind, asked in kinds.items()}
    taken = dict.fromkeys(texts, 0)
    left = most
    while left and any(taken[kind] < len(found) for kind, found in texts.items()):
        for kind, found in texts.items():
            if left and taken[kind] < len(found):
                taken[kind], left = taken[kind] + 1, left - 1
    return {kind: found[: taken[kind]] for kind, found in texts.items()}


def own_queries(table: str, texts: Sequence[str], now: datetime) -> list[HotQuery]:
    """The user's queries that read a table; one that can't be read is kept, for the canary says why it asks it not."""
    return [
        HotQuery(text)
        for text in texts
        if not isinstance(found := _parsed(table, text, now, Tables()), Query)
        or any(use.table == table for use in found.uses)
    ]


def parsed_own(table: str, texts: Sequence[str], now: datetime, tables: Tables) -> list[Query]:
    """What the user's queries ask, in the types of the tables; one that can't be read asks nothing that is known."""
    every = (_parsed(table, text, now, tables) for text in texts)
    return [one for one in every if isinstance(one, Query)]


def _parsed(table: str, text: str, now: datetime, tables: Tables) -> Query | LeftOut | Unparsed:
    namespace = table.rpartition(".")[0]
    return parsed(LoggedQuery("", "spark", now, text, ENGINE, schema=namespace), tables)


def shown(query: HotQuery, *, allow_literals: bool) -> str:
    """A query as reports have it."""
    return query.text if allow_literals else redacted(query.text, query.dialect)
