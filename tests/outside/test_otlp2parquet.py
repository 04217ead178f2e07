"""Parquet with the columns of ClickHouse's exporter, beside the same telemetry as OTLP JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neve.model.signals import Signal
from tests.outside.files import read, rows

TYPES = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
# Columns that the Parquet files do not have: integers are doubles there.
LEFT_OUT = ("record_id", "ingested_at", "value_int", "scope_name", "scope_version", "scope_attrs", "scope_attr_types")
WITHOUT_TEMPORALITY = ("histogram", "exponential_histogram")


def comparable(row: dict[str, Any], kind: str) -> dict[str, Any]:
    """A row without the columns that one of the files does not have."""
    left_out = (*LEFT_OUT, "aggregation_temporality") if kind in WITHOUT_TEMPORALITY else LEFT_OUT
    maps = ("attributes", "attribute_types", "resource_attrs", "resource_attr_types")
    return {name: dict(value or ()) if name in maps else value for name, value in row.items() if name not in left_out}


@pytest.mark.parametrize("kind", TYPES)
def test_metrics_are_equal_to_those_of_otlp(outside: Callable[[str], Path], kind: str) -> None:
    """Each type, value by value."""
    folder = outside("otlp2parquet/testdata")
    ours = read(folder / "parquet" / f"metrics_{kind}.parquet")
    theirs = read(folder / f"metrics_{kind}.jsonl")
    assert ours.names is not None
    assert (ours.signal, ours.rejected) == (Signal.METRICS, ())
    found, wanted = (sorted((comparable(row, kind) for row in rows(part)), key=str) for part in (ours, theirs))
    assert found == wanted


@pytest.mark.parametrize(("name", "count"), [("logs", 81), ("traces", 19)])
def test_logs_and_spans_are_recognised(outside: Callable[[str], Path], name: str, count: int) -> None:
    """All of them, with a time and a service."""
    found = read(outside(f"otlp2parquet/testdata/parquet/{name}.parquet"))
    assert found.names is not None
    assert found.names.schema is not None
    assert (found.names.schema.name, found.rejected) == (f"clickhouse_{name}", ())
    assert len([row for row in rows(found) if row["timestamp"] and row["service_name"]]) == count


def test_spans_with_base64_ids_are_refused_with_the_remedy(outside: Callable[[str], Path]) -> None:
    """Its OTLP JSON has the ids of protobuf's JSON."""
    found = read(outside("otlp2parquet/testdata/traces.jsonl"))
    assert found.rejected
    assert all("which is base64, expected hex digits" in bad.detail for bad in found.rejected)


def test_a_malformed_document_is_one_rejection(outside: Callable[[str], Path]) -> None:
    """With its place in the file."""
    [bad] = read(outside("otlp2parquet/testdata/invalid/malformed.json")).rejected
    assert (bad.reason, "line 21, column 15" in bad.detail) == ("malformed_document", True)
