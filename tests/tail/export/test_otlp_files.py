"""OTLP files: whole, named by their batch, and readable by `neve ingest`."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from neve.ingest.config import FieldsConfig
from neve.ingest.files.reader import ReadOptions, decompress, read_messages
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.tail.export.destination import DestinationUnavailable
from neve.tail.export.storage_destinations import OtlpFilesDestination
from neve.tail.policy.evaluate.thresholds import ADJUSTED_COUNT, stamp_adjusted_count
from tests.parts.s3 import S3
from tests.tail.export.batches import any_batch, decoded, kept_traces, rows
from tests.tail.export.configs import config


def read_back(name: str, data: bytes) -> pa.RecordBatch:
    """A file as `neve ingest` reads it."""
    [read] = read_messages(name, decompress(name, data), ReadOptions(), FieldsConfig())
    assert read.signal is Signal.TRACES
    assert not read.rejected
    return decoded(*read.messages.to_pylist())


def read_folder(folder: Path) -> list[pa.RecordBatch]:
    """Every file of a folder."""
    return [read_back(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["proto", "json"])
@pytest.mark.parametrize("compression", ["auto", "gzip", "zstd", "none"])
@settings(max_examples=12)
@given(batch=any_batch, most=st.integers(1, 4))
def test_what_is_written_is_read_again(form: str, compression: str, batch: pa.RecordBatch, most: int) -> None:
    """Every row of any batch but for the stamp, in whatever format, however packed, in however many messages."""
    stamped = stamp_adjusted_count(batch, pa.array([3.0] * batch.num_rows, pa.float64()))
    with TemporaryDirectory() as name:
        section = config("otlp_files", folder=name, format=form, compression=compression, batch_spans=most)
        delivery = OtlpFilesDestination(section, S3Config()).deliver(stamped, "b1")
        assert (delivery.accepted, delivery.rejected) == (batch.num_rows, 0)
        found = read_folder(Path(name))
        assert delivery.bytes_sent == sum(path.stat().st_size for path in Path(name).iterdir())
    assert [rows(read) for read in found] == ([rows(stamped)] if batch.num_rows else [])
    for before, after in zip(rows(batch), map(_unstamped, rows(stamped)), strict=True):
        assert before == after


def _unstamped(row: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    row["attributes"].pop(ADJUSTED_COUNT)
    row["attribute_types"].pop(ADJUSTED_COUNT)
    return row


def test_a_batch_that_comes_again_overwrites_itself(tmp_path: Path) -> None:
    """And leaves nothing else behind; another batch has a file of its own."""
    there = OtlpFilesDestination(config("otlp_files", folder=str(tmp_path / "new" / "folder")), S3Config())
    batch = kept_traces(3, 4)
    for batch_id in ("b1", "b1", "b2"):
        there.deliver(batch, batch_id)
    names = [path.name for path in (tmp_path / "new" / "folder").iterdir()]
    assert sorted(names) == ["traces-b1.binpb.gz", "traces-b2.binpb.gz"]


def test_a_folder_that_cannot_be_written_is_away(tmp_path: Path) -> None:
    """Nothing half is left, and the batch waits."""
    (tmp_path / "file").write_text("in the way")
    there = OtlpFilesDestination(config("otlp_files", folder=str(tmp_path / "file")), S3Config())
    with pytest.raises(DestinationUnavailable, match=r"there can't write traces-b1\.binpb\.gz"):
        there.deliver(kept_traces(1, 1), "b1")


def test_a_write_that_fails_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the file of before or the new one, never a part."""
    there = OtlpFilesDestination(config("otlp_files", folder=str(tmp_path), compression="none"), S3Config())
    there.deliver(kept_traces(1, 1), "b1")
    before = (tmp_path / "traces-b1.binpb").read_bytes()

    def full(_file: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DestinationUnavailable, match="no space left"):
        there.deliver(kept_traces(9, 9), "b1")
    assert [path.name for path in tmp_path.iterdir()] == ["traces-b1.binpb"]
    assert (tmp_path / "traces-b1.binpb").read_bytes() == before


@pytest.mark.parametrize("batch_id", ["../up", "", ".hidden", "a/b"])
def test_an_id_stays_in_its_folder(tmp_path: Path, batch_id: str) -> None:
    """Whoever names batches can't name a way out."""
    with pytest.raises(ValueError, match="can't be part of a file's name"):
        OtlpFilesDestination(config("otlp_files", folder=str(tmp_path)), S3Config()).deliver(
            kept_traces(1, 1), batch_id
        )


@pytest.mark.parts
def test_files_may_be_objects(s3: S3) -> None:
    """Below a prefix of a bucket."""
    section = S3Config(endpoint=s3.endpoint, access_key=s3.access_key, secret_key=SecretStr(s3.secret_key))
    storage = pafs.S3FileSystem(
        endpoint_override=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        region=s3.region,
        allow_bucket_creation=True,
    )
    storage.create_dir("tail-export")
    there = OtlpFilesDestination(config("otlp_files", folder="s3://tail-export/kept/", format="json"), section)
    batch = kept_traces(3, 4)
    for _ in range(2):
        there.deliver(batch, "b1")
    [file] = storage.get_file_info(pafs.FileSelector("tail-export/kept"))
    assert file.path == "tail-export/kept/traces-b1.jsonl.gz"
    with storage.open_input_stream(file.path, compression=None) as stream:
        assert rows(read_back(file.path, stream.read())) == rows(batch)
