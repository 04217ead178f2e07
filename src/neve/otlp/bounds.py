"""Size bounds of a message, checked before any decoder runs, by a flat scan of protobuf tags.

A message of a few megabytes may hold millions of empty groups or attributes, two bytes each on the wire and
hundreds in memory. The scan steps over the fields of a message without recursion and without copies, sees them in
the order in which a decoder does, and gives up at the first count over its bound. Most messages need no scan: an
entry takes two bytes at least, so a short message can't hold too many, and the bytes that may begin an entry are
counted at the speed of C before entries are.

Nesting needs no bound here. Handlers leave lists and maps inside of values as bytes, and protobuf's
own reader, which reads those, stops at a hundred levels: a value that is nested too deep costs its record alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from neve.model.signals import Signal
from neve.otlp.decode_result import BoundsExceeded

LONGEST_VARINT_BITS = 70  # ten bytes; a longer one is malformed, and adding it up would take quadratic time
MIN_ENTRY_BYTES = 2  # a tag and a length
MORE = 128  # the continuation bit of a varint's byte
PIECE_BYTES = 4 * 1024 * 1024  # scanned together
FIELDS_FOR_GROUP = 16  # fields of a message, a resource or a scope that are no groups; OTLP has at most three
# Fields of a message beside those of its entries: to step over more of them takes seconds. Numbers that are not packed
# are such fields.
MOST_FIELDS, FIELDS_FOR_ENTRY = 4_000_000, 32
MAX_LEVELS = 100  # protobuf's own reader stops there


class Entry(IntEnum):
    """Kind of counted entry."""

    GROUP = 0
    RECORD = 1
    PART = 2


@dataclass(frozen=True)
class Bounds:
    """Limits of one message.

    Groups are resources, scopes and metrics. Parts are repeated inside of records, resources and scopes: attributes and
    the values in them, events, links, exemplars, quantiles, references.
    """

    groups: int = 100_000
    records: int = 1_000_000
    attributes: int = 4_000_000


DESCRIPTIONS = {
    Entry.GROUP: ("groups (resources, scopes and metrics)", "max_groups"),
    Entry.RECORD: ("records", "max_records"),
    Entry.PART: ("attributes, events, links and other parts of records", "max_attributes"),
}


class TooMany(BoundsExceeded):
    """Raised when a message exceeds a bound; `setting` is the bound's name in every section."""

    def __init__(self, entry: Entry, limit: int) -> None:
        description, self.setting = DESCRIPTIONS[entry]
        self.entry, self.limit = entry, limit
        super().__init__(f"the message has more than {limit} {description}")


class Node(dict[int, tuple[Entry | None, "Node | None"]]):
    """A message of the schema: for each tag the kind that it counts as, and its content."""


def _tag(field: int) -> int:
    return field << 3 | 2


def _parts(*fields: int, inside: Node | None = None) -> Node:
    return Node({_tag(field): (Entry.PART, inside) for field in fields})


def _inside(**nodes: Node) -> Node:
    """Build a node of fields that are not counted themselves; `f5` is field 5."""
    return Node({_tag(int(name[1:])): (None, node) for name, node in nodes.items()})


def _merge_nodes(*nodes: Node) -> Node:
    return Node({tag: hit for node in nodes for tag, hit in node.items()})


VALUE = Node()
KEY_VALUE = _inside(f2=VALUE)
VALUE |= _inside(f5=_parts(1, inside=VALUE), f6=_parts(1, inside=KEY_VALUE))
ATTRIBUTES = {field: _parts(field, inside=KEY_VALUE) for field in (1, 3, 4, 6, 7, 9, 12)}
RESOURCE = _merge_nodes(ATTRIBUTES[1], _parts(3, inside=_parts(3, 4)))
SCOPE = ATTRIBUTES[3]
SPAN = _merge_nodes(ATTRIBUTES[9], _parts(11, inside=ATTRIBUTES[3]), _parts(13, inside=ATTRIBUTES[4]))
LOG_RECORD = _merge_nodes(ATTRIBUTES[6], _inside(f5=VALUE))
EXEMPLAR = ATTRIBUTES[7]
NUMBER_POINT = _merge_nodes(ATTRIBUTES[7], _parts(5, inside=EXEMPLAR))
HISTOGRAM_POINT = _merge_nodes(ATTRIBUTES[9], _parts(8, inside=EXEMPLAR))
EXPONENTIAL_POINT = _merge_nodes(ATTRIBUTES[1], _parts(11, inside=EXEMPLAR))
SUMMARY_POINT = _merge_nodes(ATTRIBUTES[7], _parts(6))
POINTS: dict[int, Node | None] = {
    5: NUMBER_POINT,
    7: NUMBER_POINT,
    9: HISTOGRAM_POINT,
    10: EXPONENTIAL_POINT,
    11: SUMMARY_POINT,
}


def _envelope(entry: Entry | None, record: Node | None, shared: tuple[Node, Node] | None = None) -> Node:
    """Build the node of a whole message.

    `shared` are its resource and scope. If records have no entry, scopes are skipped.
    """
    scope = None if entry is None else Node({_tag(2): (entry, record)})
    resource = Node({_tag(2): (Entry.GROUP, scope)})
    if shared and scope is not None:
        resource[_tag(1)], scope[_tag(1)] = (None, shared[0]), (None, shared[1])
    return Node({_tag(1): (Entry.GROUP, resource)})


def _metric(points: dict[int, Node | None]) -> Node:
    return Node({_tag(field): (None, Node({_tag(1): (Entry.RECORD, point)})) for field, point in points.items()})


KINDS = {Signal.TRACES: Entry.RECORD, Signal.LOGS: Entry.RECORD, Signal.METRICS: Entry.GROUP}
INSIDE = {Signal.TRACES: SPAN, Signal.LOGS: LOG_RECORD, Signal.METRICS: _merge_nodes(ATTRIBUTES[12], _metric(POINTS))}
# The same message as three schemas, from the fastest scan to the most thorough.
GROUPS = {
    Signal.TRACES: _envelope(None, None),
    Signal.LOGS: _envelope(None, None),
    Signal.METRICS: _envelope(Entry.GROUP, None),
}
RECORDS = {
    Signal.TRACES: _envelope(Entry.RECORD, None),
    Signal.LOGS: _envelope(Entry.RECORD, None),
    Signal.METRICS: _envelope(Entry.GROUP, _metric(dict.fromkeys(POINTS))),
}
WHOLE = {signal: _envelope(KINDS[signal], INSIDE[signal], (RESOURCE, SCOPE)) for signal in Signal}
RECORD_TAG = {Signal.TRACES: _tag(2), Signal.LOGS: _tag(2), Signal.METRICS: _tag(1)}


def check_bounds(signal: Signal, message: bytes, bounds: Bounds) -> None:
    """Raise `TooMany` for a message that exceeds its bounds. It may be malformed, which is not checked here."""
    most = len(message) // MIN_ENTRY_BYTES
    if most > bounds.groups:
        count_groups(signal, message, bounds)
    if most > bounds.records and _tags(message, RECORD_TAG[signal]) > bounds.records:
        count_entries(message, RECORDS[signal], bounds)
    if most > bounds.attributes and max_entries(message) > bounds.attributes:
        count_entries(message, WHOLE[signal], bounds)


def count_groups(signal: Signal, message: bytes, bounds: Bounds) -> int:
    """Count the groups of a message; raises `TooMany` if there are too many.

    A group has a few fields beside the groups in it. A message with many times more fields than it may have groups
    has unknown ones, and counts as one with too many groups: to step over them takes as long.
    """
    most_fields = FIELDS_FOR_GROUP * (bounds.groups + 1)
    return count_entries(message, GROUPS[signal], bounds, most_fields)[Entry.GROUP]


def count_entries(  # noqa: C901, PLR0912, PLR0915 - one flat loop
    message: bytes, node: Node, bounds: Bounds, most_fields: int | None = None
) -> list[int]:
    """Count groups, records and parts of a message up to the first malformed byte.

    Raises `TooMany` also for many times more fields than the entries have: those are unknown, or repeat themselves.
    It is one loop without calls: it runs for each field of messages that an attacker may have made to be slow.
    """
    left, more = (MOST_FIELDS, FIELDS_FOR_ENTRY) if most_fields is None else (most_fields, 0)
    counts, limits = [0, 0, 0], (bounds.groups, bounds.records, bounds.attributes)
    above: list[tuple[int, Node]] = []
    at, end, unknown = 0, len(message), 0
    while True:
        if at >= end:
            if not above:
                return counts
            end, node = above.pop()
            continue
        left -= 1
        if left < 0:
            raise TooMany(Entry.PART, bounds.attributes) if more else TooMany(Entry.GROUP, bounds.groups)
        tag = message[at]
        at += 1
        if tag > 127:
            tag &= 127
            shift = 7
            while at < end:
                byte = message[at]
                at += 1
                tag |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
                if shift >= LONGEST_VARINT_BITS:
                    return counts
        kind = tag & 7
        if kind == 2:
            size, shift = 0, 0
            while at < end:
                byte = message[at]
                at += 1
                size |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
                if shift >= LONGEST_VARINT_BITS:
                    return counts
            after = at + size
            if after > end:
                return counts
            hit = None if unknown else node.get(tag)
            if hit is not None:
                entry, inside = hit
                if entry is not None:
                    counts[entry] += 1
                    left += more
                    if counts[entry] > limits[entry]:
                        raise TooMany(entry, limits[entry])
                if inside is not None and size >= MIN_ENTRY_BYTES and len(above) < MAX_LEVELS:
                    above.append((end, node))
                    end, node = after, inside
                    continue
            at = after
        elif kind == 0:
            while at < end:
                at += 1
                if message[at - 1] < 128:
                    break
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        elif kind == 3:
            unknown += 1  # a group in protobuf's sense, which no OTLP message has: nothing in it counts
            if unknown > MAX_LEVELS:
                return counts
        elif kind == 4 and unknown:
            unknown -= 1
        else:
            return counts


def max_entries(message: bytes) -> int:
    """Return an upper bound of the number of all entries: the bytes that may begin a counted tag."""
    view = memoryview(message)
    pieces = (bytes(view[start : start + PIECE_BYTES]) for start in range(0, len(message), PIECE_BYTES))
    return len(message) - sum(len(piece.translate(None, TAG_BYTES)) for piece in pieces)


def max_objects(message: bytes) -> int:
    """Return an upper bound of the groups, records and points, for each of which a reader builds an object."""
    return len(message) - len(message.translate(None, BUILT_BYTES))


def _tags(message: bytes, tag: int) -> int:
    """Return an upper bound of the number of fields with a tag."""
    return message.count(tag) + message.count(tag | MORE)


def _tags_of(node: Node, seen: set[int]) -> set[int]:
    """Return every counted tag."""
    if id(node) in seen:
        return set()
    seen.add(id(node))
    found = {tag for tag, (entry, _inside) in node.items() if entry is not None}
    return found.union(*(_tags_of(inside, seen) for _entry, inside in node.values() if inside is not None))


def _tag_bytes() -> bytes:
    """Return the first bytes of counted tags.

    A tag may be encoded in more bytes than it needs, and then its first byte has one more bit.
    """
    tags = set[int]().union(*(_tags_of(node, set()) for node in WHOLE.values()))
    return bytes(sorted({tag | more for tag in tags for more in (0, MORE)}))


TAG_BYTES = _tag_bytes()
BUILT_BYTES = bytes(tag | more for tag in (_tag(1), _tag(2)) for more in (0, MORE))
