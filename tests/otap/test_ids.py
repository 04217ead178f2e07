"""Both conventions of ids: told apart, and every row finds its own resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.otap.ids import (
    EXPORTER,
    SPECIFICATION,
    Offsets,
    Runs,
    find_batch_starts,
    find_row_offsets,
    find_unmatched,
    infer_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from neve.otap.ids import Ints


@dataclass(frozen=True)
class Reference:
    """References of rows, -1 for none, and the distinct existing parent ids, sorted."""

    nested: Ints
    parents: Ints


@dataclass(frozen=True)
class ConventionComparison:
    """Convention of a part, and the numbers of rows without a parent under both conventions.

    There is a count for each kind of reference. A row may legitimately have no parent: a resource without attributes
    has no row in the table of attributes. `guessed` are rows without an id whose batch is unknown.
    """

    offsets: Offsets | None
    unmatched_specification: tuple[int, ...]
    unmatched_exporter: tuple[int, ...]
    guessed: int = 0

    @property
    def convention(self) -> str:
        """The convention of the part."""
        return EXPORTER if self.offsets else SPECIFICATION

    @property
    def unmatched(self) -> tuple[int, ...]:
        """Rows without a parent under the convention of the part."""
        return self.unmatched_exporter if self.offsets else self.unmatched_specification


def find_offsets(ids: Ints, nested: Ints, parents: Ints) -> Offsets | None:
    """Return the offsets of a part's batches, or None if the ids follow the specification.

    `ids` and `nested` are those of all root rows of a part, logs and spans together, with -1 for null. `parents` are
    the distinct parent ids of the table that `nested` refers to.
    """
    return infer_offsets(Runs.of(ids, [nested]), [np.unique(parents.astype(np.int64))])


def compare_conventions(ids: Ints, references: Sequence[Reference]) -> ConventionComparison:
    """Infer the convention of rows in file order, and count the unmatched references under both conventions."""
    nested, parents = [one.nested for one in references], [one.parents for one in references]
    runs = Runs.of(ids, nested)
    offsets = infer_offsets(runs, parents)
    shift, guessed = find_row_offsets(ids, nested, Offsets(find_batch_starts(runs, parents)))
    return ConventionComparison(
        offsets,
        tuple(int(find_unmatched(one.nested, one.parents).sum()) for one in references),
        tuple(int(find_unmatched(one.nested, one.parents, shift).sum()) for one in references),
        int(guessed.sum()) if offsets else 0,
    )


# A batch: for each resource, how many rows have an id.
BATCHES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=8)


@dataclass(frozen=True)
class Part:
    """Rows of a part with the parent that each should find."""

    ids: Ints
    nested: Ints
    truth: Ints

    @property
    def parents(self) -> Ints:
        """The distinct parent ids."""
        return np.unique(self.truth)


def integers(*values: int) -> Ints:
    """A few numbers."""
    return np.array(values, np.int64)


def shifted(batches: list[list[int]]) -> Part:
    """Batches to the specification, moved as the exporter does it: by the largest id before, plus one."""
    ids, nested, truth, offset = [], [], [], 0
    for sizes in batches:
        mine = np.repeat(np.arange(len(sizes)), sizes)
        ids.append(np.arange(len(mine)) + offset)
        nested.append(mine)
        truth.append(mine + offset)
        offset += len(mine)
    return Part(np.concatenate(ids), np.concatenate(nested), np.concatenate(truth))


def shifted_with_gaps(batches: list[list[list[bool]]]) -> tuple[Part, Ints]:
    """Batches, resources, rows: which of them have an id. Those that have none use no number up, as in the exporter."""
    ids, nested, truth, starts, offset = [], [], [], [], 0
    for sizes in batches:
        has_id = np.concatenate([np.array(rows) for rows in sizes])
        refers = np.repeat(np.arange(len(sizes)), list(map(len, sizes)))
        ids.append(np.where(has_id, np.cumsum(has_id) - 1 + offset, -1))
        nested.append(refers)
        truth.append(refers + offset)
        starts.append(offset)
        offset += max(int(has_id.sum()), 1)
    return Part(np.concatenate(ids), np.concatenate(nested), np.concatenate(truth)), np.array(starts)


def is_one_batch_as_well(part: Part) -> bool:
    """Whether batches of one row before the last look like one batch with resources that nothing refers to."""
    dense = np.array_equal(part.parents, np.arange(len(part.parents)))
    return dense and not np.any(np.diff(part.nested) < 0)


@given(BATCHES)
def test_offsets_lead_every_row_to_its_own_parent(batches: list[list[int]]) -> None:
    """What the exporter moved is found again, for batches of any size with any number of resources."""
    part = shifted(batches)
    offsets = find_offsets(part.ids, part.nested, part.parents)
    if len(batches) == 1:
        assert offsets is None
    elif not is_one_batch_as_well(part):
        assert offsets is not None
        np.testing.assert_array_equal(offsets.of(part.ids) + part.nested, part.truth)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.sets(st.integers(0, 9)))
def test_the_specification_is_not_mistaken(nested: list[int], without: set[int]) -> None:
    """Rows that refer to their resources in any order, some without attributes, are read as they are."""
    refers = np.array(nested, np.int64)
    parents = np.array(sorted(set(nested) - without), np.int64)
    assert find_offsets(np.arange(len(nested)), refers, parents) is None


@given(st.lists(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=3), max_size=8))
def test_rows_without_an_id_are_of_the_batch_beside_them(batches: list[list[list[bool]]]) -> None:
    """A row without an id finds the parent of its batch, unless it is said that nothing tells which."""
    part, starts = shifted_with_gaps([[[True]], *batches, [[True]]])
    shift, guessed = find_row_offsets(part.ids, [part.nested], Offsets(starts))
    np.testing.assert_array_equal((shift + part.nested)[~guessed], part.truth[~guessed])
    assert not guessed[part.ids >= 0].any()


def test_a_step_back_tells_the_batch_of_rows_without_an_id() -> None:
    """Nothing is guessed where resources of the next batch begin again."""
    part, starts = shifted_with_gaps([[[True], [True, False]], [[False, True], [False]], [[False, True]]])
    shift, guessed = find_row_offsets(part.ids, [part.nested], Offsets(starts))
    np.testing.assert_array_equal(shift + part.nested, part.truth)
    assert not guessed.any()


@pytest.mark.parametrize("ids", [np.zeros(0, np.int64), np.full(3, -1)])
def test_rows_without_any_id_are_read_to_the_specification(ids: Ints) -> None:
    """Where no row has an id, no batch can be found."""
    assert find_offsets(ids, np.zeros(len(ids), np.int64), integers(0, 5)) is None


def test_a_part_without_resources_follows_the_specification() -> None:
    """An empty table of attributes tells nothing."""
    assert find_offsets(integers(0, 1, 2), integers(0, 0, 0), integers()) is None


def test_batches_of_one_resource_each() -> None:
    """Nothing steps back where every batch has one resource: the parents tell where batches begin."""
    offsets = find_offsets(np.arange(3000), np.zeros(3000, np.int64), integers(0, 1000, 2000))
    assert offsets is not None
    np.testing.assert_array_equal(offsets.starts, [0, 1000, 2000])


def test_batches_of_one_row_each() -> None:
    """A sender that never waits: every row is a batch."""
    offsets = find_offsets(np.arange(5), np.zeros(5, np.int64), np.arange(5))
    assert offsets is not None
    np.testing.assert_array_equal(offsets.of(np.arange(5)), np.arange(5))


def test_few_scopes_have_attributes() -> None:
    """A hundred batches with twenty scopes each, of which one has attributes: that is enough."""
    ids, scope = np.arange(4000), np.tile(np.repeat(np.arange(20), 2), 100)
    offsets = find_offsets(ids, scope, np.arange(100) * 40 + 7)
    assert offsets is not None
    np.testing.assert_array_equal(offsets.starts, np.arange(100) * 40)


def test_a_resource_without_attributes_leaves_its_rows_unmatched() -> None:
    """The others find their own; the row that has nothing to find is counted."""
    part = shifted([[2, 2, 2], [2, 2, 2], [3, 3]])
    found = compare_conventions(part.ids, [Reference(part.nested, np.setdiff1d(part.parents, [7]))])
    assert found.convention == "exporter"
    assert found.unmatched == (2,)


def test_null_references_are_no_step_back() -> None:
    """A row without a resource neither begins a batch nor is it unmatched."""
    nested = integers(0, -1, 1, -1, 0, 1, -1)
    found = compare_conventions(np.arange(7), [Reference(nested, integers(0, 1, 4, 5))])
    assert found.offsets is not None
    np.testing.assert_array_equal(found.offsets.starts, [0, 4])
    assert (found.unmatched_specification, found.unmatched_exporter) == ((0,), (0,))


def test_a_later_file_of_a_part_alone() -> None:
    """The first batches may be gone, with the first rows of the batch that is left."""
    part = shifted([[500], [30, 30, 40], [50, 50, 50]])
    there = part.ids >= 540
    offsets = find_offsets(part.ids[there], part.nested[there], part.parents)
    assert offsets is not None
    np.testing.assert_array_equal(offsets.of(part.ids[there]) + part.nested[there], part.truth[there])


def test_parents_that_nothing_refers_to_make_no_batches() -> None:
    """One batch, two of whose resources have no rows, is not taken for batches of one row."""
    assert find_offsets(np.arange(100), np.repeat([0, 1], 50), integers(0, 1, 2, 3)) is None


def test_scopes_tell_batches_that_resources_do_not() -> None:
    """Resources without attributes: the scopes step back, and their parents fit."""
    resource, scope = np.zeros(8, np.int64), integers(0, 0, 1, 1, 0, 0, 1, 1)
    offsets = infer_offsets(Runs.of(np.arange(8), [resource, scope]), [integers(), integers(0, 1, 4, 5)])
    assert offsets is not None
    np.testing.assert_array_equal(offsets.starts, [0, 4])


def column(folder: Path, table: str, name: str) -> pa.ChunkedArray:
    """A column of a table of the real data."""
    outer, _, inner = name.partition(".")
    (path,) = (folder / table).glob("*/*.parquet")
    found = pq.ParquetFile(path).read(columns=[name]).column(outer)
    return pc.struct_field(found, inner) if inner else found


def numbers(folder: Path, tables: tuple[str, ...], name: str) -> Ints:
    """A column of ids of one or more tables."""
    return np.concatenate([np.asarray(column(folder, table, name), dtype=np.int64) for table in tables])


@pytest.mark.parametrize("roots", [("logs",), ("spans",), ("logs", "spans")])
def test_every_row_of_the_real_data_finds_its_service(shared_data: Path, roots: tuple[str, ...]) -> None:
    """All 4,974 logs and 14,890 spans have a service, together and apart."""
    folder = shared_data / "otap"
    ids = numbers(folder, roots, "id")
    resource, scope = (numbers(folder, roots, name) for name in ("resource.id", "scope.id"))
    named = pc.equal(column(folder, "resource_attrs", "key").cast(pa.string()), "service.name")
    services = np.unique(np.asarray(column(folder, "resource_attrs", "parent_id").filter(named), dtype=np.int64))
    scopes = np.unique(numbers(folder, ("scope_attrs",), "parent_id"))
    found = compare_conventions(ids, [Reference(resource, services), Reference(scope, scopes)])
    assert found.convention == "exporter"
    assert found.unmatched[0] == 0
    assert found.unmatched_specification[0] > 0
    assert len(ids) == sum({"logs": 4974, "spans": 14_890}[root] for root in roots)
