"""What is wrong with a folder is found, counted and shown by an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.otap.check import check_folder
from neve.otap.check_report import Kind
from neve.otap.tables import STARS
from tests.otap.stars import PART, Event, Link, Log, Span, make_star

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.otap.check_report import Report

LOCAL = pafs.LocalFileSystem()
UNUSED = (Kind.UNUSED, "resource_attrs")
OTHER = "00000000-0000-4000-8000-000000000001"
LOGS = [
    Log(
        time_ns=place,
        service="abc"[place % 3],
        attributes={"b": place, "a": "x"},
        scope_attributes={"s": 1},
        body=place,
    )
    for place in range(12)
]
SPANS = [
    Span(
        time_ns=place,
        service="de"[place % 2],
        attributes={"a": 1},
        scope_attributes={"s": 1},
        events=(Event("e", 1, {"k": 1}), Event("f")),
        links=(Link(bytes(16), bytes(8), {"l": [1]}),),
    )
    for place in range(6)
]


def checked(folder: Path, root: str = "logs") -> Report:
    """The report of a folder."""
    return check_folder(str(folder), LOCAL, STARS[root])


def kinds(report: Report) -> dict[tuple[Kind, str], int]:
    """How many problems of each kind there are in each table."""
    return {(problem.kind, problem.table): problem.count for problem in report.problems}


def change(paths: dict[str, list[str]], table: str, rows: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite the only file of a table."""
    (path,) = paths[table]
    pq.write_table(rows(pq.ParquetFile(path).read()), path)


def with_values(column: str, change_one: Callable[[list[Any]], object]) -> Callable[[pa.Table], pa.Table]:
    """A change of some values of a column, which may then be null."""

    def changed(rows: pa.Table) -> pa.Table:
        place = rows.column_names.index(column)
        values = rows.column(column).to_pylist()
        change_one(values)
        field = rows.schema.field(column).with_nullable(True)
        return rows.set_column(place, field, pa.array(values, field.type))

    return changed


def put(place: int, value: object) -> Callable[[list[Any]], object]:
    """Another value in one row."""
    return lambda values: values.__setitem__(place, value)


@pytest.mark.parametrize("convention", ["specification", "exporter"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("root", ["logs", "spans"])
def test_a_sound_folder(tmp_path: Path, convention: Any, dictionary: bool, root: str) -> None:
    """Nothing is wrong with either convention; which one it is, is said."""
    make_star(tmp_path, logs=LOGS, spans=SPANS, convention=convention, batch=4, dictionary=dictionary)
    report = checked(tmp_path, root)
    assert report.problems == ()
    assert report.is_valid
    assert report.conventions == {PART: convention}
    assert report.rows[root] == len(LOGS if root == "logs" else SPANS)


def test_files_and_parts_are_looked_at_together(tmp_path: Path) -> None:
    """Children may lie in another file than their parents; ids of another part are none of theirs."""
    make_star(tmp_path, logs=LOGS, files=3)
    make_star(tmp_path, logs=LOGS, part=OTHER, convention="exporter", batch=4)
    report = checked(tmp_path)
    assert report.problems == ()
    assert report.convention == "exporter and specification"
    assert report.files["logs"] == 4


@pytest.mark.parametrize(
    ("table", "change_rows", "expected"),
    [
        ("logs", with_values("id", put(1, 0)), {(Kind.DUPLICATE_ID, "logs"): 1, (Kind.DANGLING, "log_attrs"): 1}),
        ("logs", with_values("id", put(1, None)), {(Kind.DANGLING, "log_attrs"): 1}),
        ("logs", lambda rows: rows.drop_columns("id"), {(Kind.NO_IDS, "log_attrs"): 1}),
        ("logs", lambda rows: rows.drop_columns("time_unix_nano"), {}),
        ("log_attrs", with_values("parent_id", put(23, 99)), {(Kind.DANGLING, "log_attrs"): 1}),
        ("log_attrs", with_values("parent_id", put(0, None)), {(Kind.NO_PARENT, "log_attrs"): 1}),
        ("log_attrs", with_values("key", put(1, "a")), {(Kind.DUPLICATE_KEY, "log_attrs"): 1}),
        ("log_attrs", with_values("key", put(0, "c")), {(Kind.NOT_SORTED, "log_attrs"): 1}),
        ("log_attrs", with_values("type", put(0, 9)), {(Kind.UNKNOWN_TYPE, "log_attrs"): 1}),
        ("log_attrs", with_values("type", put(0, 2)), {(Kind.MISFIT, "log_attrs"): 2}),
        ("log_attrs", with_values("type", put(0, 0)), {(Kind.MISFIT, "log_attrs"): 1}),
        ("logs", with_values("body", put(0, {"type": 1, "int": 1})), {(Kind.MISFIT, "logs"): 2}),
        ("log_attrs", lambda rows: rows.drop_columns("key"), {(Kind.COLUMN_MISSING, "log_attrs"): 1}),
        ("resource_attrs", with_values("parent_id", put(2, 7)), {(Kind.NO_RESOURCE, "logs"): 4, UNUSED: 1}),
        ("scope_attrs", lambda rows: rows.slice(1), {(Kind.NO_SCOPE, "logs"): 4}),
    ],
)  # fmt: skip
def test_problems_of_logs(
    tmp_path: Path,
    table: str,
    change_rows: Callable[[pa.Table], pa.Table],
    expected: dict[tuple[Kind, str], int],
) -> None:
    """Each is found once, and nothing else is."""
    change(make_star(tmp_path, logs=LOGS), table, change_rows)
    report = checked(tmp_path)
    assert kinds(report) == expected
    notes = {Kind.NOT_SORTED, Kind.NO_RESOURCE, Kind.NO_SCOPE, Kind.UNUSED}
    assert report.is_valid == all(kind in notes for kind, _ in expected)
    assert all(problem.example for problem in report.problems)


def test_problems_of_spans_go_down_the_star(tmp_path: Path) -> None:
    """Attributes of an event hang on the event, not on the span."""
    paths = make_star(tmp_path, spans=SPANS)
    change(paths, "span_events", lambda rows: rows.slice(2))
    change(paths, "span_links", with_values("parent_id", put(0, 77)))
    change(paths, "spans", with_values("name", put(0, None)))
    assert kinds(checked(tmp_path, "spans")) == {
        (Kind.NO_VALUE, "spans"): 1,
        (Kind.DANGLING, "span_event_attrs"): 1,
        (Kind.DANGLING, "span_links"): 1,
    }


def test_wrong_types_are_named(tmp_path: Path) -> None:
    """The column, what it is and what it should be; such a file is not looked at further."""
    paths = make_star(tmp_path, logs=LOGS)

    def loosened(rows: pa.Table) -> pa.Table:
        times = rows.column("time_unix_nano").cast(pa.timestamp("us"), safe=False)
        ids = rows.column("id").cast(pa.int64())
        return (
            rows.drop_columns(["time_unix_nano", "id"]).append_column("time_unix_nano", times).append_column("id", ids)
        )

    change(paths, "logs", loosened)
    report = checked(tmp_path)
    (found,) = [problem for problem in report.problems if problem.kind == Kind.WRONG_TYPE]
    assert (found.count, found.is_error) == (2, True)
    assert found.example.startswith("id is int64, expected uint32 in ")


@pytest.mark.slow
def test_order_holds_from_piece_to_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read in pieces; what is out of order, or twice, across two of them is found as well."""
    monkeypatch.setattr("neve.otap.check.PIECE_ROWS", 1)
    paths = make_star(tmp_path, logs=LOGS)
    assert checked(tmp_path).problems == ()
    change(paths, "log_attrs", with_values("key", put(0, "c")))
    change(paths, "logs", with_values("id", put(11, 10)))
    assert (Kind.NOT_SORTED, "log_attrs") in kinds(checked(tmp_path))
    assert (Kind.DUPLICATE_ID, "logs") in kinds(checked(tmp_path))


def test_damaged_and_foreign_files_are_told(tmp_path: Path) -> None:
    """The others are still looked at."""
    paths = make_star(tmp_path, logs=LOGS)
    folder = tmp_path / "logs" / f"_part_id={PART}"
    (folder / "part-9-x.parquet").write_bytes(b"PAR1")
    (folder / "notes.txt").write_text("x")
    found = kinds(checked(tmp_path))
    assert found == {(Kind.UNREADABLE, "logs"): 1, (Kind.NOT_PARQUET, ""): 1}
    (path,) = paths["log_attrs"]
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(bytes(200))
    assert (Kind.UNREADABLE, "log_attrs") in kinds(checked(tmp_path))


def test_children_without_a_root_yet(tmp_path: Path) -> None:
    """A writer closes children first: a part whose root is still to come is no error."""
    make_star(tmp_path, logs=LOGS)
    for path in make_star(tmp_path, logs=LOGS, part=OTHER)["logs"]:
        pafs.LocalFileSystem().delete_file(path)
    report = checked(tmp_path)
    assert (Kind.NO_ROOT, "log_attrs") in kinds(report)
    assert report.is_valid


def test_flat_files_of_several_parts(tmp_path: Path) -> None:
    """Nothing tells which children are whose: that is an error."""
    make_star(tmp_path, logs=LOGS, flat=True)
    assert checked(tmp_path).problems == ()
    make_star(tmp_path, logs=LOGS, flat=True, part=OTHER, millis=1)
    assert (Kind.MIXED_PARTS, "logs") in kinds(checked(tmp_path))


def test_a_star_that_is_not_there(tmp_path: Path) -> None:
    """Asking for spans where there are only logs is an error that says what there is."""
    make_star(tmp_path, logs=LOGS)
    with pytest.raises(InputError, match="no table spans in"):
        checked(tmp_path, "spans")


@pytest.mark.parametrize(("root", "rows"), [("logs", 4974), ("spans", 14_890)])
def test_the_real_data_is_valid(shared_data: Path, root: str, rows: int) -> None:
    """The exporter's files are sound, once its convention is known."""
    report = checked(shared_data / "otap", root)
    assert report.convention == "exporter"
    assert report.is_valid
    assert report.rows[root] == rows
    assert (Kind.NO_RESOURCE, root) not in kinds(report)
