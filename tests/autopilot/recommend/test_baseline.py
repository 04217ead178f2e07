"""What queries read today: exactly what Neve's query engine plans, with pyiceberg's evaluators, file by file."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.file_pruning import build_spec_views, measure_baseline
from neve.autopilot.estimate.table_files import DeleteFile, read_table_files
from neve.lake.read.manifest_cache import ManifestCache
from neve.predicate.compiled_filters import compile_filters
from neve.predicate.filters import AllOf, AnyOf
from neve.predicate.filters import Test as Ask
from neve.predicate.pruning import Pruner
from tests.autopilot.recommend.made import add_rows, catalog_in, expression, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from neve.predicate.filters import Filter

START, FIRST = datetime(2024, 1, 30, 22, tzinfo=UTC), date(2024, 1, 30)
ROWS = 96
TEXTS = ["", "a", "ab", "abc", "a common beginning 1", "a common beginning 2", "b", "ü", "zz"]
SPECS: dict[str, list[tuple[str, str]]] = {
    "plain": [],
    "by_day": [("at", "day"), ("number", "bucket[4]")],
    "by_month": [("day", "month"), ("flag", "identity")],
    "by_text": [("text", "truncate[2]")],
    "by_hour": [("at", "hour"), ("text", "identity")],
    "by_amount": [("amount", "truncate[50]"), ("text", "bucket[3]")],
}


def made_rows() -> pa.Table:
    """Rows of every type that is compared, with nulls, and a number that is none."""
    chance = np.random.default_rng(5)
    number = sorted(int(value) for value in chance.integers(-50, 50, ROWS))
    real = [None if value > 45 else float("nan") if value < -45 else value / 4 for value in number]
    return pa.table(
        {
            "number": pa.array([None if value == 7 else value for value in number], pa.int64()),
            "real": pa.array(real, pa.float64()),
            "text": pa.array([None if place % 31 == 0 else TEXTS[place * 9 // ROWS] for place in range(ROWS)]),
            "day": pa.array([FIRST + timedelta(days=place) for place in range(ROWS)], pa.date32()),
            "at": pa.array([START + timedelta(minutes=20 * place) for place in range(ROWS)], pa.timestamp("us", "UTC")),
            "amount": pa.array(
                [Decimal(value).scaleb(-2) for value in chance.integers(0, 300, ROWS).tolist()], pa.decimal128(9, 2)
            ),
            "code": pa.array([bytes([place * 2]) * 20 for place in range(ROWS)], pa.binary()),
            "flag": pa.array([place % 40 < 20 for place in range(ROWS)]),
            "blind": pa.array(range(ROWS), pa.int64()),
            "empty": pa.array([None] * ROWS, pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The same rows under every partition spec; files of 6 rows."""
    catalog = catalog_in(tmp_path_factory.mktemp("baseline"))
    blind = {"write.metadata.metrics.column.blind": "none"}
    return {
        name: table_of(catalog, name, made_rows(), partition=spec, rows_per_file=6, properties=blind)
        for name, spec in SPECS.items()
    }


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-60, 60),
    "real": st.integers(-60, 60).map(lambda value: value / 4),
    "text": st.sampled_from([*TEXTS, "a common", "a common beginning 15", "m"]),
    "day": st.integers(-3, ROWS + 3).map(lambda days: FIRST + timedelta(days=days)),
    "at": st.integers(-9, 9 + 20 * ROWS).map(lambda minutes: START + timedelta(minutes=minutes)),
    "amount": st.integers(0, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    "code": st.integers(0, 250).map(lambda byte: bytes([byte]) * 20),
    "flag": st.booleans(),
    "blind": st.integers(0, 100),
    "empty": st.integers(0, 3),
}


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """A test of any kind that fits its column."""
    column = draw(st.sampled_from(sorted(VALUES)))
    kinds = ["eq", "in", "is_null", "not_null"] + (["range"] if column != "flag" else [])
    kind: Any = draw(st.sampled_from(kinds + (["prefix"] if column == "text" else [])))
    if kind in {"is_null", "not_null"}:
        return Ask(column, kind)
    if kind == "range":
        low, high = draw(st.none() | VALUES[column]), draw(st.none() | VALUES[column])
        low = draw(VALUES[column]) if low is None and high is None else low
        return Ask(column, "range", (), low, high, draw(st.booleans()), draw(st.booleans()))
    size = 1 if kind != "in" else draw(st.integers(2, 4))
    values: list[Any] = (
        draw(st.lists(VALUES[column], min_size=size, max_size=size, unique=True)) if column != "flag" else [True]
    )
    values = [value for value in values if value != ""] or ["a"] if kind == "prefix" else values
    return Ask(column, "eq" if kind == "in" and len(values) == 1 else kind, tuple(values))


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    asks(),
    lambda parts: (
        st.lists(parts, min_size=1, max_size=3).map(lambda some: AllOf(tuple(some)))
        | st.lists(parts, min_size=1, max_size=3).map(lambda some: AnyOf(tuple(some)))
    ),
    max_leaves=5,
)


def read_by_us(table: Table, filters: list[Filter]) -> list[set[str]]:
    """The files that each filter must read."""
    compiled = compile_filters(filters, find_column_types(table.schema(), VALUES))
    files = read_table_files(table, VALUES)
    found: list[set[str]] = [set() for _filter in compiled.filters]
    for spec in files.specs.values():
        matches = compiled.matches(build_spec_views(table, compiled, spec), len(spec.paths))
        for place, row in enumerate(matches):
            found[place] |= {spec.paths[number] for number in np.flatnonzero(row)}
    return [found[compiled.filters.index(one)] for one in filters]


MANIFESTS = ManifestCache()


def planned(table: Table, wanted: Filter) -> set[str]:
    """The files that a query with this filter reads."""
    pruner = Pruner(table.metadata, expression(wanted))
    entries = (entry for manifest in MANIFESTS.of(table) for entry in MANIFESTS.entries(table, manifest))
    return {entry.file_path for entry in entries if pruner.file(entry)}


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=25)
@given(filters=st.lists(FILTERS, min_size=1, max_size=4))
def test_a_filter_reads_the_files_that_are_planned(tables: dict[str, Table], name: str, filters: list[Filter]) -> None:
    """For any filter, any partition spec, nulls, cut bounds and columns without bounds: the very same files."""
    table = tables[name]
    for one, found in zip(filters, read_by_us(table, filters), strict=True):
        assert found == planned(table, one), one


def test_files_of_an_older_partition_spec_are_asked_by_that(tmp_path: Path) -> None:
    """A table whose spec was changed has files of both, and each is pruned by its own."""
    table = table_of(catalog_in(tmp_path), "changed", made_rows(), partition=[("at", "day")], rows_per_file=6)
    with table.update_spec() as update:
        update.remove_field("at_day")
        update.add_identity("flag")
    add_rows(table, made_rows(), 6)
    wanted = AllOf((Ask("flag", "eq", (True,)), Ask("at", "range", (), START, START + timedelta(hours=3))))
    table.refresh()
    assert read_by_us(table, [wanted]) == [planned(table, wanted)]
    assert len(planned(table, wanted)) < len(planned(table, AllOf()))


def test_shares_are_of_bytes(tables: dict[str, Table]) -> None:
    """Without a filter all is read, and what can't be answered reads all."""
    table = tables["plain"]
    filters: list[Filter] = [
        AllOf(),
        Ask("text", "other"),
        Ask("number", "eq", ("no number",)),
        Ask("empty", "not_null"),
    ]
    compiled = compile_filters(filters, find_column_types(table.schema(), VALUES))
    today = measure_baseline(table, compiled, read_table_files(table, VALUES))
    assert today.shares.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert today.rows == ROWS
    assert today.files == 16


def test_a_delete_is_read_with_the_files_that_it_is_about(tmp_path: Path) -> None:
    """Delete files weigh on the data files that they apply to, and on no other."""
    table = table_of(catalog_in(tmp_path), "deleted", made_rows(), rows_per_file=48)
    files = read_table_files(table, ["number"])
    [spec] = files.specs.values()
    before = files.weights(spec)
    own = DeleteFile(1000, spec.spec_id, (), spec.sequences[0], spec.paths[0], is_everywhere=False)
    everywhere = DeleteFile(500, spec.spec_id, (), spec.sequences[0], None, is_everywhere=True)
    older = DeleteFile(7, spec.spec_id, (), spec.sequences[0] - 1, None, is_everywhere=True)
    files.deletes.extend([own, everywhere, older])
    assert (files.weights(spec) - before).tolist() == [1250.0, 250.0]
