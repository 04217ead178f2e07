"""Which table somebody may have meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# What the tables are called elsewhere.
SYNONYMS = {
    **dict.fromkeys(("trace", "traces", "tracing", "transactions"), "spans"),
    **dict.fromkeys(("event", "events", "log_records", "messages", "syslog"), "logs"),
    **dict.fromkeys(("measurements", "points", "datapoints", "data_points", "samples", "timeseries"), "metrics"),
    **dict.fromkeys(("history", "query_log", "query_history"), "queries"),
}


def tables_hint(name: str, known: Iterable[str]) -> str:
    """The table that is nearest to a name, and all that there are.

    >>> tables_hint("traces", ["logs", "spans"]), tables_hint("xyz", ["logs", "spans"])
    ('did you mean spans? there are logs, spans', 'there are logs, spans')
    """
    names = sorted(known)
    asked = name.lower()
    near = [SYNONYMS[asked]] if SYNONYMS.get(asked) in names else get_close_matches(asked, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}there are {', '.join(names)}" if names else "there are no tables, `neve init` makes them"
