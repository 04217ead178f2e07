"""Tables that the tests of the analysis know."""

from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from neve.autopilot.workload.tables import Tables, View

DATA = Path(__file__).parent / "data"

ORDERS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "customer", StringType()),
    NestedField(3, "placed", TimestamptzType()),
    NestedField(4, "total", DecimalType(10, 2)),
    NestedField(5, "attributes", MapType(6, StringType(), 7, StringType())),
    NestedField(8, "day", DateType()),
    NestedField(9, "trace", BinaryType()),
    NestedField(10, "resource", StructType(NestedField(11, "id", StringType()))),
    NestedField(12, "active", BooleanType()),
)
CUSTOMERS = Schema(
    NestedField(1, "cid", LongType()), NestedField(2, "name", StringType()), NestedField(3, "vip", BooleanType())
)
RECENT = "SELECT id AS number, placed AS moment FROM shop.orders WHERE placed > TIMESTAMP '2026-01-01 00:00:00'"
TABLES = Tables({"shop.orders": ORDERS, "shop.customers": CUSTOMERS}, {"shop.recent": View(RECENT, "trino")})

# What the property tests ask DuckDB.
ROWS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "a", LongType()),
    NestedField(3, "b", StringType()),
    NestedField(4, "c", TimestampType()),
    NestedField(5, "d", DateType()),
    NestedField(6, "e", DoubleType()),
    NestedField(7, "f", DecimalType(8, 2)),
    NestedField(8, "g", BooleanType()),
    NestedField(9, "m", MapType(10, StringType(), 11, StringType())),
)
OTHERS = Schema(NestedField(1, "k", LongType()), NestedField(2, "w", StringType()))
