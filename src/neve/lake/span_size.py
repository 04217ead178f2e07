"""The size of a span as tail sampling estimates it: its texts, and a constant for the rest.

Ingestion computes it for spans that it drops, tail sampling for those of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SPAN_BYTES = 90  # of a span besides its texts: ids, times, numbers and overhead of the wire format
ENTRY_BYTES = 6  # of an attribute besides its key and value
TEXTS = ("name", "service_name", "status_message", "trace_state")
MAPS = ("attributes", "resource_attributes")
# Columns of the lake's own table of spans that have other names or fields.
OWN_COLUMNS = {
    "name": "operation_name",
    "resource_attributes": "resource_attrs",
    "events": "list_transform(events, lambda e: {time_unix_nano: e.time_unix_nano, name: e.name, "
    "attributes: e.attributes, attribute_types: e.attribute_types})",
}


def span_size_sql(columns: Mapping[str, str]) -> str:
    """Return the size of a span in bytes as SQL. `columns` has the expressions of columns with other names."""
    parts = [f"coalesce(strlen({columns.get(column, column)}), 0)" for column in TEXTS]
    for column in MAPS:
        entries = columns.get(column, column)
        keys = f"list_sum(list_transform(map_keys({entries}), lambda k: strlen(k) + {ENTRY_BYTES}))"
        values = f"list_sum(list_transform(map_values({entries}), lambda v: strlen(v)))"
        parts.append(f"coalesce({keys}, 0) + coalesce({values}, 0)")
    parts.append(f"coalesce(strlen(({columns.get('events', 'events')})::VARCHAR), 0)")
    return f"({SPAN_BYTES} + {' + '.join(parts)})"
