"""Retention on a real table whose rows are not all of an organization."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from neve.maintain.config import MaintainConfig, RetentionRule
from neve.maintain.job import Maintainer
from neve.maintain.procedures import format_timestamp, quote_text
from tests.maintain.test_spark import NAME, NOON, Orders

if TYPE_CHECKING:
    from neve.lake.lake import Lake

RULES = (RetentionRule(days=3), RetentionRule(organization="acme", days=365))
AGES = (9, 3.2, 1)


def test_rows_of_nobody_go_and_those_with_a_rule_of_their_own_stay(spark_lake: Lake) -> None:
    """In one statement with others of the same cutoff, and whole days still without a file being written."""
    orders = Orders(spark_lake)
    values = ", ".join(
        f"({quote_text(owner) if owner else 'NULL'}, {format_timestamp(NOON - timedelta(days=age))}, 1)"
        for owner in ("acme", "globex", None)
        for age in AGES
    )
    spark_lake.spark.sql(f"INSERT INTO {orders.name} VALUES {values}")
    [result] = Maintainer(spark_lake, MaintainConfig(retention=RULES), clock=lambda: NOON).run(NAME, ["retention"])
    assert (result.error, result.outcome.gain.rows) == (None, 4)
    left = {(row[0], (NOON - row[1].replace(tzinfo=UTC)).days) for row in orders.query("organization_id, timestamp")}
    assert left == {("acme", 9), ("acme", 3), ("acme", 1), ("globex", 1), (None, 1)}
    whole = spark_lake.table(NAME).metadata.snapshots[1].summary
    assert whole is not None
    assert (whole["deleted-data-files"], whole.additional_properties.get("added-files-size")) == ("2", None)
