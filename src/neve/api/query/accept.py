"""In which form an answer is wanted: what the question says, else what the header `Accept` says, else JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.api.query.errors import Failure

if TYPE_CHECKING:
    from neve.api.query.question import Format

MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}


def wanted_format(accept: str | None) -> Format:
    """The best form for a header; of two that are wanted alike the first of ours.

    >>> wanted_format(None), wanted_format("text/html, */*;q=0.1"), wanted_format("text/csv;q=0.5, application/*;q=0.2")
    ('json', 'json', 'csv')
    """
    ranges = [_range(part) for part in (accept or "*/*").split(",") if part.strip()] or [("*/*", 1.0)]
    best, weight = max(((form, _weight(kind, ranges)) for form, kind in MEDIA_TYPES.items()), key=lambda one: one[1])
    if weight <= 0:
        expected = ", ".join(MEDIA_TYPES.values())
        raise Failure(406, "not_acceptable", f"accept is {(accept or '')[:100]!r}, expected one of {expected}")
    return best


def _range(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    try:
        return kind, float(weight)
    except ValueError:
        return kind, 0.0


def _weight(kind: str, ranges: list[tuple[str, float]]) -> float:
    """What the narrowest range says that fits."""
    for fitting in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        found = [weight for name, weight in ranges if name == fitting]
        if found:
            return max(found)
    return 0.0
