"""Erasure: no copy of a marked record is left, and every other record is unchanged."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table.refs import MAIN_BRANCH

import neve
from neve.app.erase import QUOTING_SPACES, erase_records, search_records
from neve.app.settings import Settings
from neve.app.wiring import build_documents, build_lake
from neve.erase.condition import parse_condition
from neve.erase.job import Eraser
from neve.erase.old_snapshots import expire_old_snapshots
from neve.erase.state_documents import ERASED
from neve.errors import LakeError
from neve.lake.commit.append import append_once
from neve.lake.read.snapshot_files import RecentFiles, iterate_data_files
from neve.lake.write.table_writer import Target, write_files
from neve.model.audit import AUDIT
from neve.model.query_log import QUERIES
from neve.model.recorded import RECORDED
from neve.model.rollups import ROLLUPS
from neve.model.series_tables import LOG_STREAMS
from neve.model.tables import (
    LOGS,
    METRICS,
    QUARANTINE,
    SAMPLED_SPANS,
    SEARCH_INDEX,
    SPANS,
    TABLES,
)
from neve.model.trace_tables import TRACE_SUMMARIES
from neve.raw.frame import Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import OTLP, RawZone
from neve.tail.config import TailConfig
from tests.empty_tables import create_empty_tables
from tests.erase.copies import ACME, KEY, MARKER, commit, find_marker, make_rows, mark, read_all, read_rows
from tests.search.lakes import index_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table as IcebergTable

    from neve.erase.job import Erasure
    from neve.lake.lake import Lake
    from neve.model.columns import Table
    from neve.state.documents import Documents

pytestmark = [pytest.mark.slow, pytest.mark.lake]

WHERE = f"attributes['{KEY}'] = '{MARKER}'"
MARKED = tuple(table for table in TABLES if table is not SEARCH_INDEX)
SOME = (
    LOGS,
    SPANS,
    METRICS,
    ROLLUPS[0],
    QUARANTINE,
    QUERIES,
    TRACE_SUMMARIES,
    LOG_STREAMS,
    RECORDED,
    AUDIT,
)  # of each kind one
STAGE = "neve_stage_1"
NOW_MS = 1_770_000_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A lake, a raw zone and a state store in one folder."""
    return Settings.model_validate(
        {
            "organization": ACME,
            "lake": {"warehouse": str(tmp_path / "warehouse")},
            "catalog": {"path": str(tmp_path / "catalog.db")},
            "state": {"path": str(tmp_path / "state.db")},
            "raw": {"location": str(tmp_path / "raw"), "min_free_bytes": 0},
        }
    )


@pytest.fixture
def lake(settings: Settings, iceberg: None) -> Lake:
    """The lake with all tables."""
    made = build_lake(settings)
    create_empty_tables(made)
    return made


@pytest.fixture
def documents(settings: Settings) -> Iterator[Documents]:
    """The documents of the state store."""
    found = build_documents(settings)
    yield found
    found.close()


def run(settings: Settings, lake: Lake, documents: Documents, **options: Any) -> Erasure:
    """Erase the marker by the condition."""
    condition = parse_condition(options.pop("where", WHERE), options.pop("texts", ()))
    drop = options.pop("drop_refs", False)
    return erase_records(settings, lake, documents, condition, ACME, lambda *_: None, drop_refs=drop)


def store_frame(settings: Settings, payload: bytes) -> RawZone:
    """Store a received message in a sealed segment."""

    async def write() -> None:
        writer = open_writer(settings.raw, settings.s3, OTLP)
        await writer.append(Frame(Kind.LOGS, ACME, 1, payload))
        await writer.close()

    asyncio.run(write())
    return RawZone.of(settings.raw.location, settings.s3, OTLP)


def remove_all_files(lake: Lake, name: str) -> None:
    """Remove every row of a table, so that only its earlier snapshots have them."""
    table = lake.table(name)
    append_once(table, [], batch_id=f"gone-{name}", operation="test", removed=lambda now: [*iterate_data_files(now)])


@pytest.mark.parametrize("tables", [SOME, pytest.param(MARKED, marks=pytest.mark.long)], ids=["some", "all"])
def test_no_copy_of_a_marked_record_is_left(
    settings: Settings, lake: Lake, documents: Documents, tmp_path: Path, tables: tuple[Table, ...]
) -> None:
    """In tables, earlier snapshots, a staged branch, a tag, the index, the raw zone and the state; others stay."""
    random = Random(29)
    for table in tables:
        rows = make_rows(table, random, 6)
        commit(lake, table, rows[:3], "clean")
        commit(lake, table, [mark(table, rows[3]), rows[4]], "mixed")
        commit(lake, table, [mark(table, rows[5])], "whole")
    index_here(lake)
    expected = {name: [row for row in rows if MARKER not in row] for name, rows in read_all(lake).items()}
    expected[AUDIT.name] = sorted(row.replace(MARKER, ERASED) for row in read_rows(lake, AUDIT))
    remove_all_files(lake, SPANS.name)  # only earlier snapshots have its rows now
    expected[SPANS.name] = []
    stage_rows(lake, LOGS, [mark(LOGS, row) for row in make_rows(LOGS, random, 2)])
    found = lake.table(METRICS.name)
    found.manage_snapshots().create_tag(current_id(found), "kept").commit()
    zone = store_frame(settings, b"\x0a\x20" + MARKER.encode())
    [segment] = zone.segments()
    zone.mark_consumed({segment.writer: segment.number + 1})
    documents.put("saved-views", "v1", {"sql": f"SELECT 1 WHERE x = '{MARKER}'", "at": [1, MARKER]})
    for (
        space
    ) in QUOTING_SPACES:  # alerts, notifications that were sent, errors of processes, audit entries to be written
        documents.put(space, "k", {"labels": {"user": MARKER}})
    assert len(find_marker(tmp_path)) > len(tables)

    refused = run(settings, lake, documents)
    assert not refused.is_proven
    assert {reason.partition(": ")[0] for reason in refused.remaining} == {LOGS.name, METRICS.name}
    assert any(f"branch {STAGE} refers to snapshot" in reason for reason in refused.remaining)

    result = run(settings, lake, documents, drop_refs=True)
    assert result.is_proven, result.remaining
    assert find_marker(tmp_path) == []
    index = SEARCH_INDEX.name  # without the entries of rewritten files
    left = read_all(lake)
    assert set(left.pop(index)) <= set(expected.pop(index))
    assert left == expected
    assert documents.get("saved-views", "v1") == {"sql": "SELECT 1 WHERE x = '[erased]'", "at": [1, "[erased]"]}
    assert zone.segments() == []
    assert {ref for name in (LOGS.name, METRICS.name) for ref in lake.table(name).metadata.refs} == {MAIN_BRANCH}
    again = run(settings, lake, documents)
    assert (again.matched_rows, again.is_proven) == (0, True)


def current_id(table: IcebergTable) -> int:
    """The id of the current snapshot of a table that has one."""
    found = table.metadata.current_snapshot_id
    assert found is not None
    return found


def stage_rows(lake: Lake, table: Table, rows: list[dict[str, Any]]) -> None:
    """Commit rows to a branch only, in files of its own, as a staged layout has."""
    found = lake.table(table.name)
    found.manage_snapshots().create_branch(current_id(found), STAGE).commit()
    lake.table(table.name).append(pa.Table.from_pylist(rows, schema=table.schema), branch=STAGE)


def test_every_space_of_the_state_is_searched_or_has_no_texts_of_records() -> None:
    """A new space has to be put on one of the two lists."""
    root = Path(neve.__file__).parent
    declared = {
        name
        for file in root.rglob("*.py")
        for name in re.findall(r'^(?:[A-Z_]+_)?SPACE = "([a-z._-]+)"', file.read_text(), re.MULTILINE)
    }
    others = {"leases", "spent", "tail_cursors"}  # owners, amounts and positions
    assert declared - set(QUOTING_SPACES) == others


@pytest.mark.parametrize("packing", [bytes, gzip.compress])
def test_exported_files_are_named_until_they_are_gone(
    settings: Settings, lake: Lake, documents: Documents, tmp_path: Path, packing: Callable[[bytes], bytes]
) -> None:
    """They may have records of others: the command fails, and changes none of them."""
    folder = tmp_path / "exports"
    folder.mkdir()
    ending = ".gz" if packing is gzip.compress else ""
    escaped = json.dumps({"user": "Zoë " + MARKER}).encode() + b"\n"
    files = {
        "traces-1.binpb": b"\x00\x00\x00\x1f" + MARKER.encode(),
        "traces-2.jsonl": escaped,
        "traces-3.jsonl": b"{}\n",
    }
    for name, content in files.items():
        (folder / f"{name}{ending}").write_bytes(packing(content))
    target = {"name": "files", "kind": "otlp_files", "folder": str(folder)}
    exporting = settings.model_copy(update={"tail": TailConfig.model_validate({"export": {"destinations": [target]}})})
    result = run(exporting, lake, documents)
    assert sorted(result.remaining) == [f"destination files: traces-{n}{ending}" for n in ("1.binpb", "2.jsonl")]
    accented = run(exporting, lake, documents, where="", texts=("Zoë ada",))
    assert accented.remaining == (f"destination files: traces-2.jsonl{ending}",)
    for name in result.remaining:
        (folder / name.partition(": ")[2]).unlink()
    assert run(exporting, lake, documents).is_proven


def test_a_table_that_traces_are_exported_to_is_searched(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Also in another namespace."""
    lake.catalog.create_namespace("kept")
    lake.catalog.create_table("kept.spans", schema=lake.table(SAMPLED_SPANS.name).schema())
    rows = make_rows(SAMPLED_SPANS, Random(12), 3)
    lake.table("kept.spans").append(
        pa.Table.from_pylist([mark(SAMPLED_SPANS, rows[0]), *rows[1:]], schema=SAMPLED_SPANS.schema)
    )
    target = {"name": "table", "kind": "iceberg", "table": "kept.spans"}
    exporting = settings.model_copy(update={"tail": TailConfig.model_validate({"export": {"destinations": [target]}})})
    result = run(exporting, lake, documents)
    assert (result.matched_rows, result.is_proven) == (1, True)
    assert lake.table("kept.spans").scan().to_arrow().num_rows == 2
    assert find_marker(Path(settings.lake.location)) == []


def test_a_dry_run_counts_and_changes_nothing(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Each table says how it was searched."""
    random = Random(1)
    for table in (LOGS, QUARANTINE):
        commit(lake, table, [mark(table, row) for row in make_rows(table, random, 2)], "b")
    before = lake.metadata_locations()
    found = search_records(settings, lake, documents, parse_condition(WHERE), ACME, lambda *_: None)
    assert {(one.table, one.how, one.matched) for one in found.tables if one.matched} == {
        (LOGS.name, "condition", 2),
        (QUARANTINE.name, "texts", 2),
    }
    assert (found.matched_rows, found.is_proven, lake.metadata_locations()) == (4, False, before)


def test_other_organizations_keep_their_records(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Also with the same value, also in files of the same table."""
    random = Random(2)
    own, others = make_rows(LOGS, random, 2), make_rows(LOGS, random, 2, "globex")
    commit(lake, LOGS, [mark(LOGS, row) for row in (*own, *others)], "b")
    assert run(settings, lake, documents).matched_rows == 2
    left = lake.table(LOGS.name).scan().to_arrow()
    assert left["organization_id"].to_pylist() == ["globex", "globex"]


def test_snapshots_that_a_reader_needs_stay_until_it_has_read_on(lake: Lake) -> None:
    """The reason names the reader; afterwards they expire."""
    commit(lake, LOGS, make_rows(LOGS, Random(3), 2), "a")
    first = lake.table(LOGS.name).metadata.current_snapshot_id
    commit(lake, LOGS, make_rows(LOGS, Random(4), 2), "b")
    current = lake.table(LOGS.name).metadata.current_snapshot_id
    assert first is not None
    assert current is not None
    kept = expire_old_snapshots(lake, LOGS.name, [("logs_sample", first)], NOW_MS, drop_refs=False)
    assert (kept.snapshots, kept.remaining) == (
        0,
        (f"logs: logs_sample has not read the current snapshot, only {first}",),
    )
    done = expire_old_snapshots(lake, LOGS.name, [("logs_sample", current)], NOW_MS, drop_refs=False)
    assert (done.snapshots, done.remaining) == (1, ())
    assert lake.table(LOGS.name).scan().to_arrow().num_rows == 4


def test_records_that_wait_in_the_raw_zone_remain(settings: Settings, lake: Lake, documents: Documents) -> None:
    """They would come back with the next batch, so the erasure is not complete."""
    store_frame(settings, MARKER.encode())
    result = run(settings, lake, documents)
    assert result.remaining == ("raw zone: 1 segment not ingested yet",)
    assert not result.is_proven


def test_copies_without_a_text_to_search_for_are_named(settings: Settings, lake: Lake, documents: Documents) -> None:
    """A number identifies no copy in the query log or in quarantine."""
    commit(lake, QUARANTINE, make_rows(QUARANTINE, Random(10), 1), "a")
    result = run(settings, lake, documents, where="severity_number > 20")
    assert result.remaining == ("quarantine was not searched: the condition requires no text of 4 characters",)


def test_the_audit_entry_has_no_value_of_the_condition(settings: Settings, lake: Lake, documents: Documents) -> None:
    """It has the shape of the condition and the counts."""
    commit(lake, LOGS, [mark(LOGS, row) for row in make_rows(LOGS, Random(5), 2)], "b")
    run(settings, lake, documents)
    [(_key, entry)] = documents.entries("audit")
    assert (entry["action"], entry["subject"], entry["organization"]) == ("erase", "attributes[?] = ?", ACME)
    details = entry["details"]
    assert isinstance(details, dict)
    assert (details["rows"], details["tables"], details["proven"]) == ("2", "logs: 2", "True")
    assert MARKER not in repr(entry)


def test_rows_that_compaction_moves_meanwhile_are_erased(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is rejected, and the files that hold the rows now are searched."""
    random = Random(6)
    rows = [mark(LOGS, row) for row in make_rows(LOGS, random, 2)]
    commit(lake, LOGS, [rows[0], *make_rows(LOGS, random, 2)], "a")
    eraser = Eraser(lake, parse_condition(WHERE), ACME, NOW_MS)
    search: Any = Eraser._search
    rounds: list[int] = []

    def interfere(self: Eraser, tasks: Any) -> Any:
        found = search(self, tasks)
        if not rounds and any(one.matched for one in found):
            rounds.append(len(found))
            table = lake.table(LOGS.name)
            replaced = [*iterate_data_files(table)]
            files = write_files(Target.of(table), table.scan().to_arrow())
            append_once(table, files, batch_id="moved", operation="compact", removed=lambda _now: replaced)
            commit(lake, LOGS, [rows[1]], "late")
        return found

    monkeypatch.setattr(Eraser, "_search", interfere)
    erased = next(one for one in eraser.erase() if one.table == LOGS.name)
    assert (erased.matched, lake.table(LOGS.name).scan().to_arrow().num_rows) == (2, 2)


def test_a_rewrite_that_loses_a_row_is_not_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that stay are read back and compared."""
    commit(
        lake,
        LOGS,
        [mark(LOGS, row) if number == 0 else row for number, row in enumerate(make_rows(LOGS, Random(7), 4))],
        "b",
    )
    before = lake.metadata_locations()[LOGS.name]

    def lose(target: Any, rows: Any) -> Any:
        return write_files(target, rows.slice(1))

    monkeypatch.setattr("neve.erase.file_rewrite.write_files", lose)
    with pytest.raises(LakeError, match="differ after the rewrite"):
        Eraser(lake, parse_condition(WHERE), ACME, NOW_MS).erase()
    assert lake.metadata_locations()[LOGS.name] == before


def test_resends_are_recognized_after_an_erasure(settings: Settings, lake: Lake, documents: Documents) -> None:
    """Expired snapshots do not hide files with recent records from deduplication."""
    rows = make_rows(LOGS, Random(8), 2)
    now_ms = int(documents.now().timestamp() * 1000)
    arrived = documents.now()
    commit(lake, LOGS, [row | {"ingested_at": arrived} for row in rows], "a")
    commit(lake, LOGS, [mark(LOGS, make_rows(LOGS, Random(9), 1)[0]) | {"ingested_at": arrived}], "b")
    assert run(settings, lake, documents).is_proven
    found = RecentFiles(3600).find(lake.table(LOGS.name), now_ms * 1000)
    assert sum(len(files) for files in found.values()) >= 1


def test_spark_distributes_the_search_of_large_tables(spark_lake: Lake) -> None:
    """With the same result as in this process."""
    rows = make_rows(LOGS, Random(11), 4)
    commit(spark_lake, LOGS, [*rows[:2], *(mark(LOGS, row) for row in rows[2:])], "a")
    eraser = Eraser(spark_lake, parse_condition(WHERE), ACME, NOW_MS, spark_bytes=0)
    erased = next(one for one in eraser.erase() if one.table == LOGS.name)
    assert (erased.matched, spark_lake.table(LOGS.name).scan().to_arrow().num_rows) == (2, 2)
    assert sum(one.matched for one in eraser.search()) == 0
