"""Advice on tables: what is recommended, with which reasons, and what is left as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from neve.autopilot.config import RecommendConfig
from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.recommend.advisor import advise
from neve.autopilot.recommend.rules import LayoutChange
from neve.autopilot.workload.queries import TableUse
from neve.predicate.filters import AllOf
from neve.predicate.filters import Test as Ask
from tests.autopilot.recommend.made import NOW, asked, catalog_in, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from neve.autopilot.recommend.recommendation import Advice
    from neve.predicate.filters import Filter

START = datetime(2026, 5, 1, tzinfo=UTC)
ROWS, DAYS, FILES = 24_000, 16, 32
ROUTE = "attributes['http.route']"
CONFIG = RecommendConfig(
    min_table_bytes=0, min_queries=5, sample_rows=6000, ranking_rows=2000, resamples=8, payback_days=10_000
)


def made_rows() -> pa.Table:
    """Rows without any order."""
    chance = np.random.default_rng(11)
    seconds = chance.integers(0, DAYS * 86_400, ROWS)
    routes = chance.integers(0, 50, ROWS)
    attributes = [[("http.route", f"/r/{route:02d}"), ("payload", "x" * 60 + str(route))] for route in routes]
    names = pa.array([f"user-{number:06d}" for number in chance.integers(0, 20_000, ROWS)])
    return pa.table(
        {
            "organization_id": pa.array(["acme"] * ROWS),
            "at": pa.array((seconds * 1_000_000 + int(START.timestamp() * 1e6)).tolist(), pa.timestamp("us", "UTC")),
            "service": pa.array([f"s{number}" for number in chance.integers(0, 8, ROWS)]),
            "user": names,
            "key": names.cast(pa.binary()),
            "attributes": pa.array(attributes, pa.map_(pa.string(), pa.string())),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table of one organization, whose files all hold rows of all days."""
    return _table(tmp_path_factory.mktemp("advise"), Layout(partition=(PartField("organization_id", "identity"),)))


def _table(folder: Path, layout: Layout) -> Table:
    rows = made_rows()
    made = table_of(
        catalog_in(folder),
        "events",
        rows.sort_by([(name, "ascending") for name in layout.sort]) if layout.sort else rows,
        partition=[(field.column, field.transform) for field in layout.partition],
        rows_per_file=ROWS // FILES,
    )
    size = sum(task.file.file_size_in_bytes for task in made.scan().plan_files())
    with made.transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": str(size // FILES)})
    return made.refresh()


def days(first: int, number: int = 1) -> Ask:
    """Some days of the table."""
    low = START + timedelta(days=first)
    return Ask("at", "range", (), low, low + timedelta(days=number), high_inclusive=False)


def advice_on(table: Table, *filters: Filter | TableUse, config: RecommendConfig = CONFIG) -> Advice:
    """The advice for a log of these queries."""
    return advise(table, asked("t.events", *filters), config, now=NOW)


def test_ranges_of_time_lead_to_a_layout_by_time(table: Table) -> None:
    """A day of sixteen is asked for: nearly all files can be left out, and the advice says so in words and numbers."""
    advice = advice_on(table, *(days(day) for day in range(DAYS)))
    [found] = advice.recommendations
    assert found.type in {"sort", "partition"}
    assert "at" in {*found.after.sort, *(field.column for field in found.after.partition)}
    assert found.reduction.low >= 0.8
    assert found.reduction.low <= found.reduction.estimate <= found.reduction.high
    assert advice.read_share == pytest.approx(1.0)
    assert "100 % filter at by ranges" in found.reasoning
    assert "paid back in" in found.reasoning
    assert advice.rejected
    assert all(one.reason for one in advice.rejected)


def test_what_is_promised_is_kept(table: Table, tmp_path: Path) -> None:
    """The rows really laid out as recommended: what is then read lies in the interval that was told."""
    filters = [days(day, 2) for day in range(DAYS - 1)]
    [found] = advice_on(table, *filters).recommendations
    again = advice_on(_table(tmp_path, found.after), *filters)
    assert again.read_share is not None
    assert found.reduction.low <= 1 - again.read_share <= found.reduction.high
    assert not again.recommendations


def test_the_organization_stays_first(table: Table) -> None:
    """No candidate parts a tenant's rows by anything before the tenant."""
    advice = advice_on(table, *(AllOf((days(day), Ask("service", "eq", ("s1",)))) for day in range(DAYS)))
    layouts = [one.layout for one in advice.rejected] + [one.after for one in advice.recommendations]
    assert {layout.partition[0] for layout in layouts} == {PartField("organization_id", "identity")}
    assert any(layout.zorder for layout in layouts)
    assert any(layout.sort == ("service", "at") for layout in layouts)


def test_a_hot_key_of_a_map_becomes_a_column(table: Table) -> None:
    """Queries that want one route read the whole map today, and need not."""
    uses = [TableUse("t.events", Ask(ROUTE, "eq", (f"/r/{number:02d}",)), ("service", ROUTE)) for number in range(30)]
    advice = advice_on(table, *uses)
    promoted = Promoted("http_route", ROUTE)
    alone = [one for one in advice.rejected if one.layout == replace(advice.current, promoted=(promoted,))]
    assert alone
    assert alone[0].reduction is not None
    assert alone[0].reduction.estimate > 0.3
    [found] = advice.recommendations
    assert found.after.promoted == (promoted,)
    assert found.properties.get("write.metadata.metrics.column.http_route", "truncate(16)") == "truncate(16)"


def test_bloom_filters_are_for_text_of_many_values(table: Table) -> None:
    """A name among twenty thousand gets one, the same name as bytes never."""
    by_name = [Ask("user", "eq", (f"user-{number:06d}",)) for number in range(40)]
    by_key = [Ask("key", "eq", (f"user-{number:06d}".encode(),)) for number in range(40)]
    advice = advice_on(table, *by_name, *by_key)
    blooms = {
        name
        for one in (*[one.layout for one in advice.rejected], *[one.after for one in advice.recommendations])
        for name in one.blooms
    }
    assert blooms == {"user"}


def test_no_literal_leaves(table: Table) -> None:
    """What is told of a recommendation holds no value of any query."""
    marked = [AllOf((days(day), Ask("user", "eq", (f"user-{day + 77_777:06d}",)))) for day in range(DAYS)]
    told = json.dumps(advice_on(table, *marked).as_document())
    assert "user-0" not in told
    assert "2026-05" not in told


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"min_table_bytes": 10**12}, "expected at least 1 TB"),
        ({"min_queries": 100}, "16 logged queries"),
    ],
)
def test_tables_that_do_not_matter_are_left_alone(table: Table, config: dict[str, int], words: str) -> None:
    """A small table or a thin log: nothing is read, and the reason is told."""
    advice = advice_on(table, *(days(day) for day in range(DAYS)), config=CONFIG.model_copy(update=config))
    assert not advice.recommendations
    assert words in advice.reason


def test_a_rewrite_that_does_not_pay_is_not_recommended(table: Table) -> None:
    """With few days to pay back, a table of a few megabytes and a few queries a day is left as it is."""
    config = CONFIG.model_copy(update={"payback_days": 0.001})
    advice = advice_on(table, *(days(day) for day in range(DAYS)), config=config)
    assert not advice.recommendations
    assert any("would pay back in" in one.reason for one in advice.rejected)


def test_a_change_has_time_to_settle(table: Table) -> None:
    """A layout that was changed yesterday is not changed again."""
    changed = LayoutChange(NOW - timedelta(days=1), Layout(), Layout(sort=("service",)))
    advice = advise(table, asked("t.events", *(days(day) for day in range(DAYS))), CONFIG, now=NOW, history=[changed])
    assert "1.0 days ago" in advice.reason
    later = NOW + timedelta(days=30)
    settled = advise(
        table, asked("t.events", *(days(day) for day in range(DAYS))), CONFIG, now=later, history=[changed]
    )
    assert settled.recommendations


def test_filters_that_no_layout_helps_lead_to_nothing(table: Table) -> None:
    """Tests that statistics can't answer, and columns that few queries filter."""
    blind = [Ask("user", "other") for _number in range(20)]
    advice = advice_on(table, *blind, days(1))
    assert not advice.recommendations
    assert "no column is filtered" in advice.reason or "justifies a rewrite" in advice.reason
