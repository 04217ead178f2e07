"""Enums of OTLP JSON: records with a name that their enum does not have.

Protobuf's reader drops such a name silently when it ignores unknown fields, which OTLP requires, and the value becomes
0. Numbers are never unknown: enums of protobuf 3 are open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.model.signals import Signal

LISTS = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
}
MAX_NAMED = 8
UNKNOWN_ENUM = "unknown_enum"  # reason in the quarantine


@dataclass(frozen=True)
class UnknownEnum:
    """A record with an unknown name: what is wrong, a document with the record alone, and the number of its points."""

    detail: str
    document: Any
    records: int


def split_unknown_enums(signal: Signal, plain: Any, message: Any) -> list[UnknownEnum]:
    """Remove records with an unknown name of an enum from a document, and return them.

    Values that are no objects or lists, where those are expected, are left to the reader.
    """
    names = LISTS[signal.value]
    found: list[UnknownEnum] = []
    for resource, resources in _elements(plain, message, names[0]):
        for scope, scopes in _elements(resource, resources, names[1]):
            key, field = _find_field(scope, scopes, names[2])
            if key is None or not isinstance(scope[key], list):
                continue
            wrong = [next(_find_unknown(record, field.message_type), None) for record in scope[key]]
            for record, detail in zip(scope[key], wrong, strict=True):
                if detail is not None:
                    alone = _isolate(names, resource, scope, key, record)
                    found.append(UnknownEnum(detail, alone, _count_points(record, field.message_type)))
            scope[key] = [record for record, detail in zip(scope[key], wrong, strict=True) if detail is None]
    return found


def _count_points(record: Any, message: Any) -> int:
    """Return the number of points of a metric, and 1 for any other record or a metric without points."""
    count = 0
    for key, value in record.items():
        field = message.fields_by_camelcase_name.get(key) or message.fields_by_name.get(key)
        if field is None or field.message_type is None or "data_points" not in field.message_type.fields_by_name:
            continue
        place, _field = _find_field(value, field.message_type, "dataPoints")
        points = value[place] if place is not None else None
        count += len(points) if isinstance(points, list) else 0
    return max(1, count)


def _isolate(names: tuple[str, str, str], resource: Any, scope: Any, key: str, record: Any) -> Any:
    """Return a document with one record, and the other fields of its resource and scope."""
    others = {name: value for name, value in resource.items() if name not in {names[1], _snake(names[1])}}
    return {names[0]: [{**others, names[1]: [{**scope, key: [record]}]}]}


def _elements(plain: Any, message: Any, name: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the objects of a list, each with its descriptor."""
    key, field = _find_field(plain, message, name)
    if key is None or not isinstance(plain[key], list):
        return
    for each in plain[key]:
        if isinstance(each, dict):
            yield each, field.message_type


def _find_field(plain: Any, message: Any, name: str) -> tuple[str | None, Any]:
    """Return the key of a field in an object, by either of its names, and the descriptor of the field."""
    field = message.fields_by_camelcase_name[name]
    if not isinstance(plain, dict):
        return None, field
    return next((key for key in (name, field.name) if key in plain), None), field


def _find_unknown(plain: Any, message: Any) -> Iterator[str]:
    """Yield what is wrong with the enums of an object, at any depth."""
    if not isinstance(plain, dict):
        return
    for key, value in plain.items():
        field = message.fields_by_camelcase_name.get(key) or message.fields_by_name.get(key)
        if field is None:
            continue
        for each in value if isinstance(value, list) else [value]:
            if field.message_type is not None:
                yield from _find_unknown(each, field.message_type)
            elif field.enum_type is not None and isinstance(each, str) and not _is_known(each, field.enum_type):
                names = ", ".join(list(field.enum_type.values_by_name)[:MAX_NAMED])
                yield f"{key} is {each[:64]!r}, expected a number or one of {names}"


def _is_known(text: str, enum: Any) -> bool:
    if text in enum.values_by_name:
        return True
    try:
        int(text)
    except ValueError:
        return False
    return True


def _snake(name: str) -> str:
    """Return the name of a field in protobuf.

    >>> _snake("scopeSpans")
    'scope_spans'
    """
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
