"""When two OTLP messages say the same: the order of map entries, and groups without records, aside."""

from typing import Any

from google.protobuf.message import Message

from neve.model.signals import Signal

FIELDS = {
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}
MAPS = ("attributes", "filtered_attributes", "metadata")
POINTS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def canonical(signal: Signal, message: Message) -> bytes:
    """Bytes that are equal when, and only when, the messages say the same."""
    copy = type(message)()
    copy.CopyFrom(message)
    _sort_maps(copy)
    levels: list[Any] = [lambda group, name=name: getattr(group, name) for name in FIELDS[signal]]
    if signal is Signal.METRICS:
        levels.append(_points)
    _drop_empty(levels[0](copy), levels[1:])
    _join(levels[0](copy), levels[1:])
    return copy.SerializeToString(deterministic=True)


def _drop_empty(groups: Any, levels: list[Any]) -> None:
    """Drop groups without members, from the innermost outwards."""
    if not levels:
        return
    for group in groups:
        _drop_empty(levels[0](group), levels[1:])
    kept = [_copy(group) for group in groups if levels[0](group)]
    del groups[:]
    groups.extend(kept)


def _join(groups: Any, levels: list[Any]) -> None:
    """Join neighbours that differ in nothing but their members, from the outermost inwards."""
    if not levels:
        return
    members = levels[0]
    kept: list[Any] = []
    for group in groups:
        if kept and _header(kept[-1], members) == _header(group, members):
            members(kept[-1]).extend(members(group))
        else:
            kept.append(_copy(group))
    for group in kept:
        _join(members(group), levels[1:])
    del groups[:]
    groups.extend(kept)


def _points(metric: Any) -> Any:
    kind = metric.WhichOneof("data")
    return getattr(metric, kind).data_points if kind else ()


def _header(group: Any, members: Any) -> bytes:
    copy = _copy(group)
    del members(copy)[:]
    return bytes(copy.SerializeToString(deterministic=True))


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _sort_maps(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name in MAPS and field.message_type is not None and field.message_type.name == "KeyValue":
            value.sort(key=lambda entry: entry.key)
        elif field.message_type is not None and field.message_type.name != "AnyValue":
            for item in value if field.is_repeated else [value]:
                _sort_maps(item)
