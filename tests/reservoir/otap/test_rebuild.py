"""Kept records as a star of their own: all that hangs on them and nothing else, whatever the star."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.errors import InvalidWeight
from neve.otap.ids import Offsets
from neve.otap.part_reader import CHUNK_ROWS
from neve.reservoir.otap.rebuild import MOST_REPAIRED, Numbering
from neve.reservoir.windows import NANOS, Window
from tests.otap.stars import ADJUSTED, Event, Link, Log, Span, make_star
from tests.reservoir.otap.contents import by_name, check_valid, contents, files_of, numbered, told
from tests.reservoir.otap.pieces import piece_of, rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator

values = st.one_of(
    st.integers(-9, 9), st.text("xyz", max_size=3), st.floats(-2, 2), st.booleans(), st.binary(max_size=2)
)
attributes = st.dictionaries(st.sampled_from(["a", "b", "sampling.zero", "t"]), values, max_size=3)
shared = st.dictionaries(st.sampled_from(["host", "zone"]), st.sampled_from(["x", "y"]), max_size=2)
common: dict[str, st.SearchStrategy[Any]] = {
    "service": st.sampled_from([None, "shop", "cart", "pay"]),
    "resource": shared,
    "scope": st.sampled_from([None, "lib", "net"]),
    "scope_attributes": shared,
    "attributes": attributes,
    "weight": st.sampled_from([None, None, 2.5, "7"]),
}
logs = st.builds(Log, **common)
spans = st.builds(
    Span,
    **common,
    events=st.lists(st.builds(Event, name=st.sampled_from("ef"), attributes=attributes), max_size=2).map(tuple),
    links=st.lists(st.builds(Link, st.just(b"t" * 16), st.binary(min_size=8, max_size=8), attributes), max_size=2).map(
        tuple
    ),
)
ways = st.builds(Numbering, st.sampled_from(["keep", "renumber"]), st.sampled_from(["double", "string"]))


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one example."""
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def named(records: list[Any]) -> list[Any]:
    """Records, each told by its body or its name."""
    return [
        replace(one, name=f"r{number}") if isinstance(one, Span) else replace(one, body=f"r{number}")
        for number, one in enumerate(records)
    ]


def check(base: Path, records: list[Any], kept: set[int], signal: str, way: Numbering, **more: Any) -> None:
    """Rebuild some of the records, and find them as they were, each with its count, and nothing else."""
    piece = piece_of(base / "in", signal, **more)
    counts = {f"r{number}": number + 0.5 for number in kept}
    rebuilt = rebuild(piece, base / "out", counts, signal=signal, numbering=way)
    assert (rebuilt.records, rebuilt.kept) == (len(records), len(kept))
    if not kept:
        assert not rebuilt.files
        return
    found = contents(base / "out" / "tables", signal)
    as_text = way.adjusted_count == "string"
    expected = {f"r{number}": told(records[number], repr(number + 0.5) if as_text else number + 0.5) for number in kept}
    assert by_name(found) == expected
    check_valid(base / "out" / "tables", signal)
    if way.ids == "renumber":
        assert [one.id for one in found] == list(range(len(kept)))
    else:
        before = {one.name: one.id for one in contents(base / "in", signal)}
        assert all(before[one.name] in (None, one.id) for one in found)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(logs, min_size=1, max_size=8).map(named), st.data(), ways, st.booleans())
def test_logs_keep_what_hangs_on_them(
    records: list[Log], data: st.DataObject, way: Numbering, dictionary: bool
) -> None:
    """Whichever are kept, with an id or without: attributes, resource, scope, one count, no dangling parent."""
    kept = data.draw(st.sets(st.integers(0, len(records) - 1)))
    with folder() as base:
        make_star(base / "in", logs=records, dictionary=dictionary)
        check(base, records, kept, "logs", way)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(spans, min_size=1, max_size=6).map(named), st.data(), ways)
def test_spans_keep_their_events_and_links(records: list[Span], data: st.DataObject, way: Numbering) -> None:
    """With the attributes of these."""
    kept = data.draw(st.sets(st.integers(0, len(records) - 1)))
    with folder() as base:
        make_star(base / "in", spans=records)
        check(base, records, kept, "spans", way)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(logs, min_size=3, max_size=9), st.integers(1, 4), st.data(), ways)
def test_ids_of_the_exporter_become_those_of_the_specification(
    records: list[Log], batch: int, data: st.DataObject, way: Numbering
) -> None:
    """Batches whose resources have the same ids are told apart by their offsets."""
    records = named([replace(one, attributes={**one.attributes, "n": 1}) for one in records])
    kept = data.draw(st.sets(st.integers(0, len(records) - 1)))
    with folder() as base:
        make_star(base / "in", logs=records, convention="exporter", batch=batch)
        offsets = Offsets(np.arange(0, len(records), batch, dtype=np.int64))
        check(base, records, kept, "logs", way, offsets=offsets)


def test_everything_passes_with_what_it_stood_for(tmp_path: Path) -> None:
    """1.0 where a record says nothing; what it says as text, whole number or double otherwise."""
    weights = [None, "2.5", 3, 4.5, " 7", 1e-9]
    records = [replace(one, weight=weight) for one, weight in zip(numbered(6), weights, strict=True)]
    make_star(tmp_path / "in", logs=records)
    with pytest.raises(InvalidWeight, match=r"record 4 of logs has sampling.adjusted_count = ' 7', expected a finite"):
        rebuild(piece_of(tmp_path / "in"), tmp_path / "refused")
    rebuilt = rebuild(piece_of(tmp_path / "in"), tmp_path / "out", invalid_weights="one")
    found = by_name(contents(tmp_path / "out" / "tables"))
    assert [found[f"r{number}"].count for number in range(6)] == [1.0, 2.5, 3.0, 4.5, 1.0, 1e-9]
    assert rebuilt.counted_as_one == 1
    rebuild(piece_of(tmp_path / "in"), tmp_path / "one", weights="one")
    assert {one.count for one in contents(tmp_path / "one" / "tables")} == {1.0}


def test_a_count_that_is_said_twice_is_the_larger(tmp_path: Path) -> None:
    """As the decisions take it: one record is one record."""
    paths = make_star(tmp_path / "in", logs=[replace(numbered(1)[0], weight=0.25)], dictionary=False)
    (path,) = paths["log_attrs"]
    rows = pq.read_table(path)
    again = rows.filter(pa.compute.equal(rows.column("key"), ADJUSTED))
    twice = again.set_column(again.schema.get_field_index("double"), "double", pa.array([0.5]))
    pq.write_table(pa.concat_tables([rows, twice.cast(rows.schema)]), path)
    rebuild(piece_of(tmp_path / "in"), tmp_path / "out")
    assert [one.count for one in contents(tmp_path / "out" / "tables")] == [0.5]


def test_records_of_other_windows_are_left_out(tmp_path: Path) -> None:
    """And not counted."""
    make_star(tmp_path / "in", logs=numbered(10))
    rebuilt = rebuild(piece_of(tmp_path / "in"), tmp_path / "out", window=Window(4 * NANOS, 3))
    assert (rebuilt.records, rebuilt.kept) == (3, 3)
    assert set(by_name(contents(tmp_path / "out" / "tables"))) == {"r4", "r5", "r6"}


@pytest.mark.slow
def test_many_records_become_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each a star of its own; doing it again gives the same files, another generation other names."""
    monkeypatch.setattr("neve.otap.part_reader.CHUNK_ROWS", 50)
    make_star(tmp_path / "in", logs=numbered(250, ("shop", "cart")))
    piece = piece_of(tmp_path / "in")
    for name, generation in (("one", 0), ("two", 0), ("three", 1)):
        rebuild(piece, tmp_path / name, rows_per_file=100, generation=generation)
    one, two, three = (files_of(tmp_path / name / "tables") for name in ("one", "two", "three"))
    assert one == two
    assert one.keys().isdisjoint(three)
    assert sorted(one.values()) == sorted(three.values())
    check_valid(tmp_path / "one" / "tables")
    assert len({path.split("/")[1] for path in one}) == 3
    assert len(by_name(contents(tmp_path / "one" / "tables"))) == 250


def test_resources_of_many_batches_fit_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch for each record has a resource for each: a part holds no more of them than ids can tell apart."""
    monkeypatch.setattr("neve.otap.part_reader.CHUNK_ROWS", 20)
    monkeypatch.setattr("neve.reservoir.otap.rebuild.MOST_REPAIRED", 40)
    records = numbered(100, ("shop", "cart"))
    make_star(tmp_path / "in", logs=records, convention="exporter", batch=1)
    rebuild(piece_of(tmp_path / "in", offsets=Offsets(np.arange(100))), tmp_path / "out")
    found = contents(tmp_path / "out" / "tables")
    assert by_name(found) == {str(one.body): told(one, 1.0) for one in records}
    assert len({one.part for one in found}) == 3
    assert MOST_REPAIRED + CHUNK_ROWS == 1 << 16
