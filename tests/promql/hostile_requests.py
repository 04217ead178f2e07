"""Expensive requests to Prometheus' HTTP API: expressions that take all CPU time or memory unless they are limited."""

from __future__ import annotations

from typing import Any

RANGE_SECONDS = 11_000
MANY = " or ".join(f'label_replace(vector(1), "i", "{number}", "", "")' for number in range(100))
# Each term visits 3,600 samples in 11,000 windows: minutes of CPU.
SLOW = " + ".join(f"quantile_over_time(0.5, vector({number})[1h:1s])" for number in range(100))
JOIN = ', "a", "' + "x" * 10_000 + '", "a", "a", "a")'


def range_before(end: int) -> dict[str, int]:
    """Return the parameters of a range with as many steps as a request may have."""
    return {"start": end - RANGE_SECONDS, "end": end, "step": 1}


def hostile_requests(end: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return paths and parameters by name. The data of a range ends at a time in seconds."""
    period = range_before(end)
    return {
        "long range": ("/query", {"query": "sum_over_time({__name__=~'.+'}[100y:1ms])"}),
        "tiny steps": ("/query", {"query": "max_over_time(vector(1)[365d:1ms])"}),
        "nested subqueries": ("/query", {"query": "max_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])[1y:1s]"}),
        "visits": ("/query_range", {"query": SLOW, **period}),
        "many cells": ("/query_range", {"query": f"sum by (i) ({MANY}) + on (i) ({MANY})", **period}),
        "label bomb": ("/query", {"query": "label_join(" * 6 + "vector(1)" + JOIN * 6}),
        "label replacement": (
            "/query",
            {
                "query": "label_replace(" * 9
                + 'label_replace(vector(1), "a", "0123456789", "", "")'
                + ', "a", "$1$1$1$1$1$1$1$1$1$1", "a", "(.*)")' * 9
            },
        ),
        "large repetition": ("/query", {"query": "{__name__=~'((a{1,1000}){1,1000}){1,1000}'}"}),
        "long alternatives": ("/query", {"query": "{__name__=~'" + "|".join(["(a+)+x"] * 9000) + "'}"}),
        "many matchers": ("/query", {"query": "{" + ",".join(f"a{n}=~'(x+x+)+y|'" for n in range(4000)) + ",a!=''}"}),
        "deep parentheses": ("/query", {"query": "(" * 20_000 + "1" + ")" * 20_000}),
        "deep calls": ("/query", {"query": "sum(" * 9000 + "x" + ")" * 9000}),
        "deep signs": ("/query", {"query": "-" * 90_000 + "1"}),
        "long chain": ("/query", {"query": "+".join(["1"] * 40_000)}),
        "long text": ("/query", {"query": "'" + "x" * 900_000 + "'"}),
        "many selectors": ("/query", {"query": "+".join(f"memory_bytes[{n}s:]" for n in range(1, 2000))}),
        "many windows": ("/query", {"query": "+".join(f"sum(memory_bytes offset {n}s)" for n in range(1, 140))}),
        "long lists": (
            "/series",
            {"match[]": ["{__name__=~'.+'}"] * 19 + ["{__name__=~'.*s'}"], "start": 0, "end": 10**10},
        ),
        "long durations": ("/query", {"query": "rate(memory_bytes[" + "9" * 300 + "y])"}),
        "far times": ("/query", {"query": "memory_bytes @ 9e15", "time": "9e14"}),
    }
