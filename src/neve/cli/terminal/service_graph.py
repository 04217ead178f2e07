"""The service map as lines of text, as a graph in the DOT language, and as an SVG image."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Any

from neve.cli.output import escape_controls
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["draw_dot", "draw_svg", "draw_text"]

ERRORS_SHOWN = 0.01  # share of failed calls from which an edge is marked
BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN = 190, 34, 190, 26, 20
MAX_LABEL = 24  # characters of a name in the image
SHAPES = {"database": "cylinder", "messaging_system": "cds", "virtual_node": "ellipse"}


def draw_text(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the edges by caller, those with the most calls first, and a line with the range."""
    edges = found["edges"]
    if not edges:
        yield "no calls between services in this time range"
        return
    by_client: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in edges:
        by_client[one["client"]].append(one)
    width = max(len(_name(one["server"])) for one in edges)
    for client, some in by_client.items():
        yield _name(client)
        for one in some:
            mark = "✗" if _share_failed(one) >= ERRORS_SHOWN else " "
            kind = f" ({one['connection'].replace('_', ' ')})" if one["connection"] else ""
            yield f"  {mark} → {_name(one['server']):<{width}}  {_describe(one, found['seconds'])}{kind}"
    services = {name for one in edges for name in (one["client"], one["server"])}
    more = ", more edges are not shown" if found["more_edges"] else ""
    yield f"{format_count(len(services), 'node')}, {format_count(len(edges), 'edge')} in {_range(found)}{more}"


def draw_dot(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a graph for Graphviz."""
    yield "digraph services {"
    yield "  rankdir=LR;"
    yield '  node [shape=box, fontname="sans-serif"];'
    for name, kind in _list_nodes(found["edges"]).items():
        yield f"  {_quote(name)} [shape={SHAPES.get(kind, 'box')}];"
    for one in found["edges"]:
        colour = ", color=red" if _share_failed(one) >= ERRORS_SHOWN else ""
        label = _quote(_describe(one, found["seconds"]))
        yield f"  {_quote(one['client'])} -> {_quote(one['server'])} [label={label}{colour}];"
    yield "}"


def draw_svg(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield an image: callers left of what they call, edges with failed calls red and dashed."""
    places, size = _place_nodes(found["edges"])
    width, height = size
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" role="img">'
    )
    yield f"<title>Calls between services in {escape(_range(found))}</title>"
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    for one in found["edges"]:
        yield from _draw_edge(one, places, found["seconds"])
    for name, kind in _list_nodes(found["edges"]).items():
        left, top = places[name]
        radius = BOX_HEIGHT // 2 if kind else 4
        yield (
            f'<g><title>{escape(_name(name))}</title><rect x="{left}" y="{top}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="{radius}" fill="#eef3f8" stroke="#49617a"/>'
            f'<text x="{left + BOX_WIDTH // 2}" y="{top + 22}" text-anchor="middle">{escape(_cut(_name(name)))}</text>'
            "</g>"
        )
    yield "</svg>"


def _draw_edge(one: Mapping[str, Any], places: Mapping[str, tuple[int, int]], seconds: float) -> Iterator[str]:
    (left, top), (right, bottom) = places[one["client"]], places[one["server"]]
    is_forward = right > left
    first, last = (left + BOX_WIDTH, right) if is_forward else (left, right + BOX_WIDTH)
    begin, end = top + BOX_HEIGHT // 2, bottom + BOX_HEIGHT // 2
    bend = COLUMN_GAP // 2 if is_forward else -COLUMN_GAP // 2
    has_failed = _share_failed(one) >= ERRORS_SHOWN
    stroke = 'stroke="#b00020" stroke-dasharray="6 3"' if has_failed else 'stroke="#7a8a99"'
    words = escape(f"{_name(one['client'])} → {_name(one['server'])}: {_describe(one, seconds)}")
    yield (
        f'<g><title>{words}</title><path d="M {first} {begin} C {first + bend} {begin}, {last - bend} {end}, '
        f'{last} {end}" fill="none" stroke-width="1.5" {stroke}/>'
        f'<text x="{(first + last) // 2}" y="{(begin + end) // 2 - 4}" text-anchor="middle" font-size="10" '
        f'fill="{"#b00020" if has_failed else "#333333"}">{escape(_describe(one, seconds, is_short=True))}</text></g>'
    )


def _place_nodes(edges: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[int, int]], tuple[int, int]]:
    """Return the left upper corner of each node, and the size of the image. Nodes are right of their callers."""
    nodes = list(_list_nodes(edges))
    depth = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes)):  # at most one round for each node: cycles end it
        deeper = {
            one["server"]: depth[one["client"]] + 1
            for one in edges
            if one["client"] != one["server"] and depth[one["server"]] <= depth[one["client"]] < len(nodes) - 1
        }
        if not deeper:
            break
        depth |= deeper
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for name in nodes:
        columns[depth[name]].append(name)
    found: dict[str, tuple[int, int]] = {}
    for number, column in enumerate(sorted(columns)):
        for row, name in enumerate(columns[column]):
            found[name] = (MARGIN + number * (BOX_WIDTH + COLUMN_GAP), MARGIN + row * (BOX_HEIGHT + ROW_GAP))
    most = max((len(some) for some in columns.values()), default=0)
    width = 2 * MARGIN + max(len(columns), 1) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP
    return found, (width, 2 * MARGIN + max(most, 1) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP)


def _list_nodes(edges: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes, each with its kind: empty for a service that sends spans."""
    found: dict[str, str] = {}
    for one in edges:
        client_kind = "virtual_node" if one["client"] == "user" and one["connection"] == "virtual_node" else ""
        found.setdefault(one["client"], client_kind)
        kind = "" if client_kind or one["connection"] not in SHAPES else one["connection"]
        found.setdefault(one["server"], kind)
    return found


def _share_failed(one: Mapping[str, Any]) -> float:
    return float(one["estimated_errors"]) / max(float(one["estimated_calls"]), 1.0)


def _describe(one: Mapping[str, Any], seconds: float, *, is_short: bool = False) -> str:
    """Return calls, failed calls and latency of an edge."""
    rate = one["estimated_calls"] / max(seconds, 1.0)
    failed = f"{_share_failed(one):.1%} failed" if one["estimated_errors"] else ""
    latency = "" if one["p95_ms"] is None else f"p95 {format_duration(one['p95_ms'] / 1000)}"
    calls = f"{rate:.2f}/s" if is_short else f"{format_count(one['estimated_calls'], 'call')}, {rate:.2f}/s"
    return ", ".join(part for part in (calls, failed, latency) if part)


def _range(found: Mapping[str, Any]) -> str:
    return format_duration(found["seconds"])


def _name(text: str) -> str:
    return " ".join(escape_controls(text).split()) or "(no name)"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def _quote(text: str) -> str:
    """Quote a name for DOT.

    >>> _quote('a "b"')
    '"a \\\\"b\\\\""'
    """
    escaped = _name(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
