"""Commits that happen once, and that say so when nobody can tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import PartitionFieldSummary
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation

from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.commit import append
from neve.lake.commit.append import TableMoved, append_once, require_snapshot
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from tests.telemetry import decoded, traces

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.lake import Lake


def files_for(table: Table) -> list[DataFile]:
    """Data files that wait to be committed."""
    return write_files(Target.of(table), pa.Table.from_batches([decoded(Signal.TRACES, traces(3)).batch]))


def paths(files: list[DataFile]) -> list[Path]:
    """Where data files are on disk."""
    from pathlib import Path

    return [Path(file.file_path.removeprefix("file://")) for file in files]


def test_a_lost_answer_is_settled_by_looking(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit happened, its answer did not arrive: the batch is found in the table, and all is well."""
    table = lake.table("spans")
    commit = lake.catalog.commit_table

    def committed_but_deaf(*args: object) -> object:
        commit(*args)  # type: ignore[arg-type]
        raise ConnectionError("the line went dead")

    monkeypatch.setattr(lake.catalog, "commit_table", committed_but_deaf)
    assert append_once(table, files_for(table), batch_id="b", operation="test").new
    assert table.scan().to_arrow().num_rows == 3


def test_an_outcome_that_nobody_knows_is_said_and_keeps_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do, the files stay, and running again ends well."""
    table = lake.table("spans")
    files = files_for(table)

    def dead(*_args: object) -> object:
        raise ConnectionError("the line went dead")

    with monkeypatch.context() as patch:
        patch.setattr(lake.catalog, "commit_table", dead)
        with pytest.raises(CommitUnknown, match="run the same command again"):
            append_once(table, files, batch_id="b", operation="test")
    assert all(path.exists() for path in paths(files))
    assert append_once(table, files, batch_id="b", operation="test").new


def test_conflicts_without_end_are_given_up_by_name(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last attempt the error names the table, the batch and the number of attempts."""
    table = lake.table("spans")

    def taken(*_args: object) -> object:
        raise CommitFailedException("someone was quicker")

    monkeypatch.setattr(lake.catalog, "commit_table", taken)
    monkeypatch.setattr(append, "MAX_WAIT_SECONDS", 0)
    with pytest.raises(CommitConflict, match=r"telemetry.spans 12 times while batch b"):
        append_once(table, files_for(table), batch_id="b", operation="test")


def test_a_commit_only_at_a_snapshot_refuses_any_other(lake: Lake) -> None:
    """What was read must still be true when it is acted upon."""
    table = lake.table("spans")
    first = append_once(table, files_for(table), batch_id="a", operation="test", guard=require_snapshot(None))
    append_once(table, files_for(table), batch_id="b", operation="test", guard=require_snapshot(first.snapshot_id))
    with pytest.raises(TableMoved, match=f"expected {first.snapshot_id}"):
        append_once(table, files_for(table), batch_id="c", operation="test", guard=require_snapshot(first.snapshot_id))


def test_a_table_of_format_version_3_is_refused_before_anything_is_written(lake: Lake) -> None:
    """Pyiceberg can't commit to it; the error says so instead of leaving an outcome that nobody knows."""
    table = lake.table("spans")
    files = files_for(table)
    newer = TableMetadataV3.model_validate(table.metadata.model_dump() | {"format-version": 3, "next-row-id": 0})
    table.metadata = newer
    with pytest.raises(LakeError, match="format version 3, Neve writes version 2"):
        append_once(table, files, batch_id="b", operation="test")


def test_a_manifest_is_looked_at_for_itself_while_others_are(lake: Lake) -> None:
    """Threads ask about many manifests at once: the answer about one never comes from another."""
    table = lake.table("spans")
    append_once(table, files_for(table), batch_id="b", operation="test")
    file = next(iter(table.scan().plan_files())).file
    (manifest,) = table.metadata.snapshots[-1].manifests(table.io)
    partitions = manifest.partitions or []
    elsewhere = SimpleNamespace(partitions=[*partitions[:-1], PartitionFieldSummary(False, False, None, None)])

    class Interrupted(list[PartitionFieldSummary]):
        """Partitions that are read while another manifest is being asked about."""

        def __getitem__(self, position: Any) -> Any:
            assert not might_hold(elsewhere)  # type: ignore[arg-type]
            return super().__getitem__(position)

    with table.transaction() as transaction:
        change = append._Replace(Operation.OVERWRITE, transaction, table.io)
        change.delete_data_file(file)
        change._build_delete_files_partition_predicate()
        might_hold = change._build_manifest_evaluator(0)
        assert might_hold(SimpleNamespace(partitions=Interrupted(partitions)))  # type: ignore[arg-type]


def test_a_commit_on_a_branch_meanwhile_is_a_conflict_like_any_other(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number that the commit was to have is taken: it looks at the table again, and happens."""
    table, commit, times = lake.table("spans"), lake.catalog.commit_table, iter(range(9))

    def overtaken(*args: object) -> object:
        if next(times) == 0:
            raise ValueError("Cannot add snapshot with sequence number 2 older than last sequence number 2")
        return commit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.catalog, "commit_table", overtaken)
    assert append_once(table, files_for(table), batch_id="b", operation="test").new
    assert table.scan().to_arrow().num_rows == 3
