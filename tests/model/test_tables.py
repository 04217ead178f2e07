"""The declarations hold together: every name that a table uses is a column of it, and every column is explained."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from neve.model.columns import STRING_MAP, TIMESTAMP, Column, Table
from neve.model.properties import BLOOM_FILTER_PREFIX, METRICS_PREFIX
from neve.model.tables import BY_SIGNAL, CONTEXT, TABLES

EACH_TABLE = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
TRANSFORMS = {"hour", "identity", "day", "month", "year", "bucket[16]"}


def names(table: Table) -> list[str]:
    """The columns' names, in order."""
    return [column.name for column in table.columns]


def nested_names(kind: pa.DataType) -> Iterator[list[str]]:
    """The names inside each struct of a type."""
    if pa.types.is_struct(kind):
        yield [field.name for field in kind]
        for field in kind:
            yield from nested_names(field.type)
    elif pa.types.is_list(kind):
        yield from nested_names(kind.value_type)


@EACH_TABLE
def test_every_table_and_column_is_explained(table: Table) -> None:
    """A comment is there, in lower case where it is words, and without a full stop."""
    for comment in (table.comment, *(column.comment for column in table.columns)):
        assert comment
        assert not comment.endswith(".")
        assert comment == comment.strip()


@EACH_TABLE
def test_column_names_are_unique_whatever_their_case(table: Table) -> None:
    """Engines that do not tell cases apart must still tell columns apart, inside structs too."""
    for group in (names(table), *(inner for column in table.columns for inner in nested_names(column.type))):
        lowered = [name.lower() for name in group]
        assert len(set(lowered)) == len(lowered)
        assert lowered == group


def test_table_names_are_unique() -> None:
    """No two tables share a name."""
    assert len({table.name for table in TABLES}) == len(TABLES)


@EACH_TABLE
def test_partition_sort_statistics_and_blooms_name_columns(table: Table) -> None:
    """Nothing refers to a column that the table does not have, and nothing is named twice."""
    for used in ([column for column, _ in table.partition], table.sort, table.bounded, table.blooms):
        assert set(used) <= set(names(table))
        assert len(set(used)) == len(used)


@EACH_TABLE
def test_the_tenant_stands_first(table: Table) -> None:
    """The organization is the first column, is never null, and leads the partition spec as it is."""
    assert table.columns[0].name == "organization_id"
    assert table.columns[0].required
    assert table.partition[0] == ("organization_id", "identity")
    assert "organization_id" in table.bounded


@EACH_TABLE
def test_partitions_are_of_columns_that_pruning_can_use(table: Table) -> None:
    """Every partition source has bounds, and its transform is one that all engines know."""
    assert {transform for _, transform in table.partition} <= TRANSFORMS
    for column, transform in table.partition:
        assert column in table.bounded
        if transform == "day":
            assert table.schema.field(column).type == TIMESTAMP
            assert not table.schema.field(column).nullable


@EACH_TABLE
def test_statistics_are_kept_for_flat_columns_only(table: Table) -> None:
    """A bound on a nested column means nothing."""
    for name in (*table.bounded, *table.sort, *table.blooms):
        assert not pa.types.is_nested(table.schema.field(name).type)


@EACH_TABLE
def test_the_schema_carries_comments_and_nullability(table: Table) -> None:
    """Arrow's fields say what the columns say, in the declared order."""
    assert table.schema.names == names(table)
    for column, field in zip(table.columns, table.schema, strict=True):
        assert field.metadata == {b"doc": column.comment.encode()}
        assert (field.type, field.nullable) == (column.type, not column.required)


@EACH_TABLE
def test_properties_follow_the_declaration(table: Table) -> None:
    """Exactly the bounded columns have metrics, exactly the bloomed ones a filter, and all values are text."""
    properties = table.all_properties
    metrics = {key.removeprefix(METRICS_PREFIX) for key in properties if key.startswith(METRICS_PREFIX)}
    blooms = {key.removeprefix(BLOOM_FILTER_PREFIX) for key in properties if key.startswith(BLOOM_FILTER_PREFIX)}
    assert (metrics, blooms) == (set(table.bounded), set(table.blooms))
    assert properties["comment"] == table.comment
    assert all(isinstance(value, str) for value in properties.values())


@pytest.mark.parametrize("table", BY_SIGNAL.values(), ids=lambda table: table.name)
def test_records_of_every_signal_keep_their_surroundings(table: Table) -> None:
    """Resource, scope, record id and time of ingestion are the last columns of each signal's table."""
    assert tuple(table.columns[-len(CONTEXT) :]) == CONTEXT
    for maps in ("attributes", "attribute_types", "resource_attrs", "scope_attrs"):
        assert table.schema.field(maps).type == STRING_MAP


def _declare(kind: pa.DataType) -> Table:
    return Table("t", "c", (Column("id", kind, "an id"),), partition=(), sort=(), bounded=(), blooms=("id",))


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16), pa.large_binary()], ids=str)
def test_a_bloom_filter_on_binary_is_refused(kind: pa.DataType) -> None:
    """DuckDB finds nothing through such a filter, so a table can't be declared with one; the column is named."""
    with pytest.raises(ValueError, match="t: bloom filters are for text only: id"):
        _declare(kind)


def test_a_bloom_filter_on_text_is_a_property() -> None:
    """What is not binary may have one."""
    assert _declare(pa.string()).all_properties[BLOOM_FILTER_PREFIX + "id"] == "true"


def test_own_properties_win() -> None:
    """A table's own property replaces the general one."""
    table = Table("t", "c", (), (), (), (), properties={"write.parquet.compression-codec": "gzip"})
    assert table.all_properties["write.parquet.compression-codec"] == "gzip"
