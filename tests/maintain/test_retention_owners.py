"""Rows go by the rule of their own organization, also where a file does not say whose rows it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform
from pyiceberg.types import NestedField, StringType, TimestamptzType

from neve.lake.lake import Lake
from neve.maintain.config import MaintainConfig, RetentionRule
from neve.maintain.job import Maintainer
from tests.maintain.lines import NOW

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.step import StepResult

NAME = "shop.orders"
TRANSFORMS: dict[str, Transform[Any, Any]] = {"organization_id": IdentityTransform(), "timestamp": DayTransform()}
MONTH = RetentionRule(days=30)
ACME = RetentionRule(organization="acme", days=365)
DAY, MOMENT = "TIMESTAMP '2026-10-17 00:00:00.000000'", "TIMESTAMP '2026-10-17 03:20:00.000000'"


@dataclass
class Orders:
    """A table of two columns that begins without partitions, and the statements that retention runs on it."""

    lake: Lake
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lake.catalog.create_namespace("shop")
        time = NestedField(2, "timestamp", TimestamptzType(), required=False)
        schema = Schema(NestedField(1, "organization_id", StringType(), required=False), time)
        self.lake.catalog.create_table(NAME, schema)

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.lake.table(NAME)

    def partition(self, *columns: str) -> Orders:
        """From now on files are of one organization and one day too, or of one of the two."""
        with self.table.update_spec() as update:
            for column in columns or TRANSFORMS:
                update.add_field(column, TRANSFORMS[column], f"by_{column}")
        return self

    def forget(self) -> Orders:
        """From now on files are of any organization."""
        with self.table.update_spec() as update:
            update.remove_field("by_organization_id")
        return self

    def empty(self) -> Orders:
        """What compaction leaves of old files."""
        self.table.delete()
        return self

    def insert(self, *rows: tuple[str | None, float]) -> Orders:
        """Rows of organizations, each so many days old."""
        owners, ages = zip(*rows, strict=True)
        moments = [NOW - timedelta(days=age) for age in ages]
        schema = pa.schema([("organization_id", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))])
        self.table.append(pa.table([list(owners), moments], schema=schema))
        return self

    def retain(self, *rules: RetentionRule) -> StepResult:
        """Run retention."""
        [result] = Maintainer(self.lake, MaintainConfig(retention=rules), clock=lambda: NOW).run(NAME, ["retention"])
        return result


@pytest.fixture
def orders(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Orders:
    """Orders in a lake whose Spark only writes down what it is to run."""
    found = Orders(lake)

    def sql(statement: str) -> SimpleNamespace:
        found.statements.append(statement.removeprefix(f"DELETE FROM {lake.spark_name(NAME)} WHERE "))
        return SimpleNamespace(collect=list)

    conf = SimpleNamespace(set=lambda *_: None, unset=lambda *_: None)
    monkeypatch.setattr(Lake, "spark", SimpleNamespace(sql=sql, conf=conf))
    return found


def test_rows_without_an_organization_go_alone(orders: Orders) -> None:
    """The rule for everybody does not reach the rows of an organization that has its own."""
    orders.partition().insert((None, 40), (None, 30.01), ("acme", 40))
    result = orders.retain(MONTH, ACME)
    assert orders.statements == [
        f"`organization_id` IS NULL AND `timestamp` < {DAY}",
        f"`organization_id` IS NULL AND `timestamp` < {MOMENT}",
    ]
    assert [(entry.action, entry.what.partition(" before ")[0]) for entry in result.outcome.entries] == [
        ("delete", "rows without an organization"),
        ("delete", "rows without an organization"),
        ("keep", "rows of acme"),
    ]


def test_rows_without_an_organization_share_a_statement(orders: Orders) -> None:
    """Where others have the same cutoff, they are named beside them."""
    orders.partition().insert((None, 40), ("globex", 40), ("it's", 40), ("acme", 40))
    orders.retain(MONTH, ACME)
    assert orders.statements == [
        f"(`organization_id` IN ('globex', 'it\\'s') OR `organization_id` IS NULL) AND `timestamp` < {DAY}"
    ]


def test_files_that_do_not_say_whose_rows_they_hold_are_refused(orders: Orders) -> None:
    """A table that began without partitions is not touched while a rule is about one organization."""
    orders.insert(("acme", 40), ("globex", 40)).partition().insert(("acme", 40), ("globex", 40))
    result = orders.retain(MONTH, ACME)
    assert orders.statements == []
    assert result.error == (
        "shop.orders has 1 file of a partition spec without organization_id, so the rule for organization acme can't "
        "be applied"
    )
    assert result.hint is not None
    assert "`neve compact run shop.orders`" in result.hint
    assert "compact.old_specs" in result.hint


@pytest.mark.parametrize("first", [(), ("timestamp",)])
def test_an_old_spec_without_files_does_no_harm(orders: Orders, first: tuple[str, ...]) -> None:
    """After its files were rewritten, the rules for organizations count."""
    if first:
        orders.partition(*first)
    orders.insert(("acme", 40)).empty().partition(*(column for column in TRANSFORMS if column not in first))
    orders.insert(("acme", 40), ("globex", 40))
    orders.retain(MONTH, ACME)
    assert orders.statements == [f"`organization_id` IN ('globex') AND `timestamp` < {DAY}"]


def test_one_rule_for_everybody_needs_to_know_nobody(orders: Orders) -> None:
    """Old files, and rows without an organization, go by it too."""
    orders.insert(("acme", 40), (None, 40)).partition().insert(("acme", 40), (None, 40))
    result = orders.retain(MONTH)
    assert orders.statements == [f"`timestamp` < {DAY}", f"`timestamp` < {MOMENT}"]
    assert {entry.what.partition(" before ")[0] for entry in result.outcome.entries} == {"rows"}


def test_a_table_that_has_given_up_its_organizations_is_refused(orders: Orders) -> None:
    """Compaction would not help: today's partition spec has none either."""
    orders.partition().insert(("acme", 40)).forget().insert(("acme", 40))
    result = orders.retain(MONTH, ACME)
    assert orders.statements == []
    assert result.error == (
        "shop.orders is not partitioned by organization_id, so the rule for organization acme can't be applied"
    )
