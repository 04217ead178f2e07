"""Layouts as specs, orders and properties of a real table's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from neve.autopilot.config import StageConfig
from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.rollout.step_rewriter import partition_expression
from neve.autopilot.table_layout import (
    diff_properties,
    find_new_columns,
    parse_map_key,
    resolve_partition_spec,
    resolve_sort_order,
)
from neve.errors import ConfigError
from tests.autopilot.rollout.orders import TABLE, make_orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from neve.lake.lake import Lake

ROUTE = Promoted("route", "tags['route']")


@pytest.fixture
def table(make_lake: Callable[..., Lake]) -> Table:
    """An empty table of orders."""
    lake = make_lake(init=False)
    make_orders(lake, 0)
    return lake.table(TABLE)


def test_a_new_spec_has_new_ids_and_the_usual_names(table: Table) -> None:
    """The table's metadata is not changed by asking."""
    wanted = (PartField("customer", "bucket[4]"), PartField("at", "day"), PartField("id", "identity"))
    spec = resolve_partition_spec(table.metadata, wanted)
    assert [(one.name, one.field_id) for one in spec.fields] == [
        ("customer_bucket_4", 1000),
        ("at_day", 1001),
        ("id", 1002),
    ]
    assert spec.spec_id == 1
    assert len(table.metadata.partition_specs) == 1


def test_a_spec_that_was_there_is_used_again(table: Table) -> None:
    """In whatever order its fields are named; a field keeps its id in another spec."""
    with table.update_spec() as update:
        update.add_field("customer", "bucket[4]", "c4").add_field("at", "day", "day")
    with table.update_spec() as update:
        update.remove_field("c4")
    there = resolve_partition_spec(table.metadata, (PartField("at", "day"), PartField("customer", "bucket[4]")))
    assert (there.spec_id, table.metadata.default_spec_id) == (1, 2)
    other = resolve_partition_spec(
        table.metadata, (PartField("customer", "bucket[4]"), PartField("id", "truncate[10]"))
    )
    assert [(one.name, one.field_id) for one in other.fields] == [("c4", 1000), ("id_trunc_10", 1002)]
    assert other.spec_id == 3
    assert resolve_partition_spec(table.metadata, ()).spec_id == 0


def test_a_sort_order_has_the_id_that_it_will_get(table: Table) -> None:
    """None is 0; one that is there is used again."""
    assert resolve_sort_order(table.metadata, ()).order_id == 0
    assert resolve_sort_order(table.metadata, ("customer", "id")).order_id == 1
    with table.update_sort_order() as update:
        for name in ("customer", "id"):
            update.asc(name, IdentityTransform(), NullOrder.NULLS_FIRST)
    assert table.metadata.default_sort_order_id == 1
    assert resolve_sort_order(table.metadata, ("customer", "id")) == table.sort_order()
    assert resolve_sort_order(table.metadata, ("id",)).order_id == 2


def test_properties_come_and_go() -> None:
    """Bloom filters, curve and target size, with what the recommendation adds."""
    before = Layout(zorder=("a", "b"), blooms=("x", "y"), target_file_bytes=5)
    after = Layout(sort=("a",), blooms=("y", "z"), target_file_bytes=7)
    blooms = "write.parquet.bloom-filter-enabled.column."
    assert diff_properties(before, after, {"k": "v"}) == {
        "k": "v",
        f"{blooms}z": "true",
        f"{blooms}x": None,
        "neve.layout.zorder": None,
        "write.target-file-size-bytes": "7",
    }
    assert diff_properties(after, after, {}) == {}


def test_columns_for_keys_have_the_type_of_the_map(table: Table) -> None:
    """What is no map's key, and a column that is there as something else, are errors that name it."""
    assert find_new_columns(table.schema(), [ROUTE]) == {"route": StringType()}
    for source in ("tags", "tags[1]", "tags['']"):
        with pytest.raises(ConfigError, match="expected a map's key"):
            parse_map_key(Promoted("x", source))
    with pytest.raises(ConfigError, match="expected a map"):
        find_new_columns(table.schema(), [Promoted("x", "price['a']")])
    with pytest.raises(ConfigError, match="the column price is a double, expected a string"):
        find_new_columns(table.schema(), [Promoted("price", "tags['price']")])
    assert parse_map_key(Promoted("x", "tags['it's']")) == ("tags", "it's")


def test_partitions_are_said_in_spark() -> None:
    """Names are quoted, also those of nested fields; a transform that Iceberg has not is refused."""
    assert partition_expression("lake", PartField("a.b`c", "hour")) == "`lake`.system.hours(`a`.`b``c`)"
    with pytest.raises(ConfigError, match="by 'void'"):
        partition_expression("lake", PartField("a", "void"))


def test_servers_need_their_address() -> None:
    """Settings fail at the start, by the key that is missing."""
    for kind, key in (("nessie", "nessie.url"), ("lakefs", "lakefs.endpoint")):
        with pytest.raises(ValidationError, match=key):
            StageConfig.model_validate({"branches": kind})
