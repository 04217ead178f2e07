"""Rows near the ends of columns: all of them are in the sample, and estimates there are those of the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.file_pruning import measure_baseline
from neve.autopilot.estimate.sample import Sample, SampleSize, Tail, find_tails, is_in_tails, take_sample
from neve.autopilot.estimate.simulator import Simulator
from neve.autopilot.estimate.table_files import TableExtent, read_table_files
from neve.autopilot.layout import Layout
from neve.predicate.compiled_filters import CompiledFilters, compile_filters
from neve.predicate.filters import Test as Ask
from tests.autopilot.recommend.made import catalog_in, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

ROWS, FILES, SAMPLED = 40_000, 40, 2000
NAMES = ["id", "key", "name"]
# Of each key there are two rows: beyond the first of these literals lie twenty rows, half as many as there are files.
ASKED = [Ask("key", "eq", (19_990,)), Ask("key", "range", (), 19_970, None), Ask("key", "eq", (10_000,))]
BY_NAME = [Ask("name", "range", (), None, "n00000007"), Ask("name", "eq", ("n00012345",))]


def made_rows(seed: int) -> pa.Table:
    """Rows in the order of their ids; keys and names lie anywhere."""
    keys = np.random.default_rng(seed).permutation(np.repeat(np.arange(ROWS // 2), 2))
    names = np.random.default_rng(seed + 1).permutation(ROWS)
    return pa.table({"id": np.arange(ROWS), "key": keys, "name": [f"n{number:08d}" for number in names]})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table whose ids are sorted, and nothing else."""
    return table_of(catalog_in(tmp_path_factory.mktemp("tails")), "rows", made_rows(1), rows_per_file=ROWS // FILES)


def compiled_for(table: Table) -> CompiledFilters:
    """The filters, ready to be asked."""
    return compile_filters([*ASKED, *BY_NAME], find_column_types(table.schema(), NAMES))


def sample_of(table: Table, compiled: CompiledFilters, files: int = FILES, seed: int = 1) -> Sample:
    """One row in twenty, and what is asked for of tails."""
    return take_sample(
        table, read_table_files(table, NAMES), NAMES, SampleSize(SAMPLED, files, seed, FILES), compiled.columns
    )


def test_every_row_of_a_tail_is_sampled_once(table: Table) -> None:
    """Those beyond literals near an end, with a weight of one; the others stand for the rest."""
    compiled = compiled_for(table)
    sample = sample_of(table, compiled)
    assert set(sample.tails) == {"key", "name"}
    keys = np.array(sample.columns["key"].to_pylist())
    assert sorted(keys[keys >= 19_970].tolist()) == sorted([*range(19_970, 20_000)] * 2)
    assert {"n00000000", "n00000007"} <= set(sample.columns["name"].to_pylist())
    assert sample.weights.sum() == pytest.approx(ROWS)
    inside = is_in_tails(sample.columns, compiled.columns, sample.tails)
    assert sample.weights[inside] == pytest.approx(np.ones(inside.sum()), rel=0.05)
    assert (np.diff(sample.files) >= 0).all()


def test_tails_end_where_every_file_has_rows_beyond(table: Table) -> None:
    """The tail is as long as the outermost literals ask for, and a literal in the middle makes none."""
    compiled = compiled_for(table)
    plain = take_sample(table, read_table_files(table, NAMES), NAMES, SampleSize(SAMPLED, FILES, 1))
    cuts = compiled.columns["key"].cuts
    found = find_tails(plain, compiled.columns, 8 * FILES)
    assert found["key"] == Tail(-1, cuts.place(19_970))
    assert find_tails(plain, {"key": compiled.columns["key"]}, 0)["key"].high > cuts.place(19_970)
    middle = compile_filters([ASKED[2]], find_column_types(table.schema(), NAMES))
    assert not find_tails(plain, middle.columns, 8 * FILES)


def test_tails_of_too_many_files_are_left(table: Table) -> None:
    """Where reading them would take more files than are sampled, the sample stays as it is."""
    sample = sample_of(table, compiled_for(table), files=10)
    assert not sample.tails
    assert sample.weights.sum() == pytest.approx(ROWS)


def test_a_sample_of_everything_needs_no_tails(table: Table) -> None:
    """All rows are in it, and the estimate of the layout that is there is what its manifests say."""
    compiled = compiled_for(table)
    files = read_table_files(table, NAMES)
    sample = take_sample(table, files, NAMES, SampleSize(2 * ROWS, FILES, 1, FILES), compiled.columns)
    assert sample.rows == ROWS
    assert not sample.tails
    extent = TableExtent.of(table, files, compiled, files.bytes // FILES)
    estimate = Simulator(sample, compiled, extent).scan(Layout(sort=("id",))).shares
    assert estimate == pytest.approx(measure_baseline(table, compiled, files).shares, abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_values_near_an_end_are_estimated_as_they_are(tmp_path: Path, seed: int) -> None:
    """Which files have one of twenty rows is chance, and still the estimate is within three files of forty."""
    rows = made_rows(seed)
    catalog = catalog_in(tmp_path)
    before = table_of(catalog, "before", rows, rows_per_file=ROWS // FILES)
    compiled = compiled_for(before)
    files = read_table_files(before, NAMES)
    extent = TableExtent.of(before, files, compiled, files.bytes // FILES)
    layout = Layout(sort=("name",))
    estimate = Simulator(sample_of(before, compiled, seed=seed), compiled, extent).scan(layout).shares
    after = table_of(catalog, "after", rows.sort_by("name"), rows_per_file=ROWS // FILES)
    truth = measure_baseline(after, compiled, read_table_files(after, NAMES)).shares
    assert np.abs(estimate - truth).max() <= 3 / FILES
