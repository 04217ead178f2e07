"""Events and links of a span as Datadog has them: as tags, in JSON."""

from __future__ import annotations

import json
from typing import Any

Item = dict[str, Any]

EXCEPTION = {"exception.message": "error.msg", "exception.type": "error.type", "exception.stacktrace": "error.stack"}
NUMBERS = {"int": int, "double": float}


def event_tags(events: list[Item], *, failed: bool) -> dict[str, str]:
    """All events, and of a span that failed what its last exception says."""
    tags = {"events": _json(list(map(_event, events)))}
    exceptions = [event for event in events if (event["name"] or "").lower() == "exception"]
    if exceptions:
        tags["_dd.span_events.has_exception"] = "true"
    for event in exceptions if failed else ():
        said = dict(event["attributes"] or ())
        tags |= {tag: said[key] for key, tag in EXCEPTION.items() if key in said}
    return tags


def link_tags(links: list[Item]) -> dict[str, str]:
    """All links."""
    return {"_dd.span_links": _json(list(map(_link, links)))}


def _event(event: Item) -> Item:
    attributes, types = dict(event["attributes"] or ()), dict(event["attribute_types"] or ())
    return _filled(
        time_unix_nano=event["time_unix_nano"],
        name=event["name"],
        attributes={key: _plain(text, types.get(key)) for key, text in attributes.items()},
        dropped_attributes_count=event["dropped_attributes_count"],
    )


def _link(link: Item) -> Item:
    return _filled(
        trace_id=(link["trace_id"] or b"").hex(),
        span_id=(link["span_id"] or b"").hex(),
        tracestate=link["trace_state"],
        attributes=dict(link["attributes"] or ()),
        dropped_attributes_count=link["dropped_attributes_count"],
    )


def _plain(text: str, kind: str | None) -> object:
    """A value as JSON has it; a number that JSON has no word for stays text."""
    if kind == "bool":
        return text == "true"
    if kind in NUMBERS and text.lower().lstrip("+-") not in ("inf", "nan"):
        return NUMBERS[kind](text)
    return text


def _filled(**fields: object) -> Item:
    return {name: value for name, value in fields.items() if value}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
