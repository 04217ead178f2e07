"""The files that a layout rewrites: every one that a logged query reads and that does not lie so yet, and no other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.autopilot.estimate.file_pruning import collect_filters, find_files_read
from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.rollout.canary_queries import parse_own_queries
from neve.autopilot.rollout.stage_files import (
    LAID_OUT_REASON,
    UNREAD_REASON,
    FileShape,
    StageFile,
    format_selection,
    select_files,
)
from neve.autopilot.rollout.stage_setup import StageRequest, begin_attempt
from neve.autopilot.workload.tables import Tables
from neve.errors import LakeError
from neve.lake.commit.append import append_once
from neve.lake.commit.branches import IcebergBranches, branch_name
from neve.lake.write.table_writer import Target, write_files
from neve.predicate.filters import AllOf
from neve.predicate.filters import Test as Ask
from tests.autopilot.recommend.made import asked, catalog_in, table_of
from tests.autopilot.recommend.test_baseline import FILTERS, SPECS, made_rows, planned
from tests.autopilot.rollout.orders import FILE_ROWS, TABLE, append, make_orders, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from neve.autopilot.attempt import StagedBranch
    from neve.lake.lake import Lake
    from neve.predicate.filters import Filter

FILES = st.lists(
    st.builds(
        StageFile,
        spec_id=st.integers(0, 1),
        partition=st.just(""),
        path=st.text("xyz", min_size=6, max_size=6),
        bytes=st.integers(1, 100),
        rows=st.just(1),
        order_id=st.integers(0, 2),
    ),
    unique_by=lambda file: file.path,
    max_size=20,
)
SHAPES = st.none() | st.builds(FileShape, st.integers(0, 1), st.integers(0, 2))
BY_CUSTOMER = Layout(sort=("customer",), target_file_bytes=512 * 1024**2)  # the size that the table has
EARLY = AllOf((Ask("customer", "eq", (5,)), Ask("id", "range", (), None, 2 * FILE_ROWS - 1)))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The same rows under every partition spec; files of 6 rows."""
    catalog = catalog_in(tmp_path_factory.mktemp("gain"))
    return {name: table_of(catalog, name, made_rows(), partition=spec, rows_per_file=6) for name, spec in SPECS.items()}


@pytest.fixture
def orders(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with four files of orders, whose ids follow each other."""
    lake = make_lake(init=False)
    make_orders(lake)
    return lake


def begin(lake: Lake, layout: Layout = BY_CUSTOMER, *filters: Filter) -> StagedBranch:
    """An attempt of a change, for queries that ask so."""
    return begin_attempt(lake.table(TABLE), StageRequest("t1", TABLE, layout, filters=filters))


def paths(lake: Lake) -> list[str]:
    """The files of main, by their first order."""
    found = lake.table(TABLE).inspect.files().to_pylist()
    return [
        str(one["file_path"]) for one in sorted(found, key=lambda one: one["readable_metrics"]["id"]["lower_bound"])
    ]


@given(FILES, SHAPES, st.data())
def test_each_file_gains_or_is_left_for_a_reason(
    files: list[StageFile], shape: FileShape | None, data: st.DataObject
) -> None:
    """What is rewritten is read and not laid out so; the rest is counted, each file once."""
    read = data.draw(st.sets(st.sampled_from([file.path for file in files]))) if files else set()
    found = select_files(files, shape, read)
    by_path = {file.path: file for file in files}
    assert set(found.files) <= read
    assert all(FileShape(by_path[path].spec_id, by_path[path].order_id) != shape for path in found.files)
    left = [file for file in files if file.path not in set(found.files)]
    assert all(file.path not in read or shape == FileShape(file.spec_id, file.order_id) for file in left)
    assert sum(group.files for group in found.left_out) == len(left)
    assert sum(group.bytes for group in found.left_out) == sum(file.bytes for file in left)
    assert {group.reason for group in found.left_out} <= {UNREAD_REASON, LAID_OUT_REASON}


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=10)
@given(filters=st.lists(FILTERS, min_size=1, max_size=3))
def test_no_file_is_left_out_that_a_query_reads(tables: dict[str, Table], name: str, filters: list[Filter]) -> None:
    """For any filter and any partition spec: the files that the engine plans, of all filters that can rule any out."""
    table = tables[name]
    expected = [planned(table, one) for one in filters]
    found = find_files_read(table, filters)
    assert found <= set().union(*expected)
    everything = planned(table, AllOf())
    for one in expected:
        assert one <= found or one == everything


def test_what_rules_no_file_out_says_nothing(tables: dict[str, Table]) -> None:
    """A query without a condition reads everything, however rows lie: no file gains for its sake."""
    wanted = Ask("number", "eq", (3,))
    queries = asked("t.plain", AllOf(), wanted, Ask("text", "other"), wanted) + asked("t.other", Ask("flag", "is_null"))
    filters = collect_filters("t.plain", queries)
    assert filters == (AllOf(), wanted, Ask("text", "other"))
    assert find_files_read(tables["plain"], filters) == planned(tables["plain"], wanted)
    assert find_files_read(tables["plain"], [AllOf()]) == frozenset()


def test_an_attempt_begins_with_the_files_that_are_read(orders: Lake) -> None:
    """Those that nobody reads stay; where all are read nothing is named, and new columns need all files."""
    record = begin(orders, BY_CUSTOMER, EARLY)
    assert sorted(record.files or ()) == sorted(paths(orders)[:2])
    assert [(one.reason, one.files) for one in record.left_out] == [(UNREAD_REASON, 2)]
    assert format_selection(2, record.left_out).startswith(
        "2 of 4 files are rewritten; 2 stay as they are: no logged query"
    )
    everywhere = begin(orders, BY_CUSTOMER, Ask("customer", "eq", (5,)), EARLY)
    assert (everywhere.files, everywhere.left_out) == (None, ())
    promoted = Layout(promoted=(Promoted("route", "tags['route']"),))
    assert begin(orders, promoted, EARLY).files is None
    with pytest.raises(LakeError, match=r"no file of .* gains"):
        begin(orders, BY_CUSTOMER, Ask("id", "eq", (-1,)))


def test_files_that_have_the_layout_already_stay(orders: Lake) -> None:
    """What an earlier attempt left on main is not rewritten again; a curve or a size is no mark on a file."""
    append(orders, 10_000, 10)
    with orders.table(TABLE).update_spec() as update:
        update.add_identity("customer")
    table = orders.table(TABLE)
    append_once(table, write_files(Target.of(table), rows(20_000, 3)), batch_id="new", operation="test")
    with orders.table(TABLE).update_spec() as update:
        update.remove_field("customer")
    everyone = Ask("id", "range", (), 0, None)
    by_value = Layout(partition=(PartField("customer", "identity"),), target_file_bytes=512 * 1024**2)
    record = begin(orders, by_value, everyone)
    assert [(one.reason, one.files) for one in record.left_out] == [(LAID_OUT_REASON, 3)]
    assert len(record.files or ()) == 5
    smaller = begin(orders, Layout(partition=by_value.partition, target_file_bytes=8192), everyone)
    assert smaller.files is None


def test_a_branch_that_main_has_left_behind_is_staged_whole(orders: Lake) -> None:
    """Statistics are main's of now: they say nothing about what was."""
    main = orders.table(TABLE).current_snapshot()
    assert main is not None
    IcebergBranches(orders, TABLE).create(branch_name("t1"), str(main.snapshot_id))
    append(orders, 10_000, 10)
    assert begin(orders, BY_CUSTOMER, EARLY).files is None


def test_the_users_own_queries_count(orders: Lake) -> None:
    """In the types of the table; what can't be read asks nothing that is known."""
    table = orders.table(TABLE)
    texts = ["SELECT price FROM orders WHERE id < 10", "SELECT (((", "SELECT 1 FROM shop.other WHERE id = 2"]
    own = parse_own_queries(TABLE, texts, datetime(2026, 1, 1, tzinfo=UTC), Tables({TABLE: table.schema()}))
    assert find_files_read(table, collect_filters(TABLE, own)) == {paths(orders)[0]}
