"""Files are bounded: by size, by what they unpack to, and by what they do to the worker that reads them."""

from __future__ import annotations

import gzip
import io
import os
import signal
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.errors import FileTooLarge, InputError
from neve.ingest.config import FieldsConfig, IngestConfig
from neve.ingest.files.formats import Format
from neve.ingest.files.generic_records import GenericReader
from neve.ingest.files.job import FileJob, FileRequest, ingest_files
from neve.ingest.files.reader import decompress
from neve.ingest.spark_crashes import MAX_BATCH_ATTEMPTS, MAX_FILE_ATTEMPTS, SPACE, FileAttempts
from neve.lake.storage.paths import OwnFolders
from neve.model.signals import Signal
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.results import IngestResult
    from neve.lake.lake import Lake

MB = 1024 * 1024


def zstd(size: int) -> bytes:
    """Zeros as one frame of zstd."""
    return bytes(pa.compress(bytes(size), "zstd", asbytes=True))


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "raw"), [(".gz", gzip.compress(bytes(64 * MB))), (".zst", zstd(64 * MB))])
def test_unpacking_ends_at_the_bound(ending: str, raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb of kilobytes is not opened to its end: the bytes that Arrow holds stay near the bound."""
    assert len(raw) < MB
    before = pa.default_memory_pool().bytes_allocated()
    pieces: list[int] = []
    opened = pa.CompressedInputStream

    class Counting:
        def __init__(self, *given: Any) -> None:
            self._stream = opened(*given)

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *_given: object) -> None:
            self._stream.close()

        def read(self, size: int) -> bytes:
            piece: bytes = self._stream.read(size)
            pieces.append(len(piece))
            return piece

    monkeypatch.setattr("neve.ingest.files.reader.pa.CompressedInputStream", Counting)
    with pytest.raises(FileTooLarge, match=f"larger than {8 * MB} bytes, which is ingest.max_unpacked_bytes") as caught:
        decompress(f"a.jsonl{ending}", raw, 8 * MB)
    assert "split the file" in str(caught.value)
    assert sum(pieces) <= 16 * MB
    assert pa.default_memory_pool().bytes_allocated() - before <= 16 * MB
    assert len(decompress(f"a.jsonl{ending}", raw, 64 * MB)) == 64 * MB


def test_a_plain_file_is_held_to_the_same_bound() -> None:
    """Nothing to unpack is no excuse."""
    with pytest.raises(FileTooLarge):
        decompress("a.jsonl", bytes(2000), 1999)
    assert decompress("a.jsonl", bytes(2000), 2000) == bytes(2000)


def read(form: Format, data: bytes, most: int) -> Any:
    """A generic file of logs."""
    return GenericReader(Signal.LOGS, FieldsConfig(), most).read(form, data)


def test_names_of_columns_that_are_no_text_are_refused() -> None:
    """A file may hold any bytes there, and pyarrow reads them as UTF-8."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"messagé": ["a"]}), sink, store_schema=False)
    broken = sink.getvalue().replace("é".encode(), b"\xa6\xa6")
    with pytest.raises(InputError, match="not a Parquet file"):
        read(Format.PARQUET, broken, MB)


def test_a_value_of_a_dictionary_is_counted_each_time() -> None:
    """A dictionary holds a megabyte once, and a million rows may share it."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * 1000])
    sink = io.BytesIO()
    pq.write_table(pa.table({"message": words}), sink)
    reader = GenericReader(Signal.LOGS, FieldsConfig(), most=3_000_000)
    with pytest.raises(FileTooLarge, match="larger than 750000 bytes, which is ingest"):
        reader.read(Format.PARQUET, sink.getvalue())


@pytest.mark.slow
def test_a_repeated_value_in_parquet_is_counted_each_time() -> None:
    """A dictionary makes millions of long texts small; in memory each of them is whole."""
    text = pa.array(["x" * 10_000]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), text.dictionary)
    sink = io.BytesIO()
    pq.write_table(pa.table({"message": column.cast(pa.string())}).slice(0, 20_000), sink, compression="zstd")
    assert len(sink.getvalue()) < MB
    with pytest.raises(FileTooLarge):
        read(Format.PARQUET, sink.getvalue(), 64 * MB)


def test_names_of_columns_are_counted_for_each_row() -> None:
    """A CSV file says them once, and each of its records as JSON says them again."""
    data = b"message," + b"n" * 100_000 + b"\n" + b"a,b\n" * 50_000
    assert len(data) < MB
    with pytest.raises(FileTooLarge):
        read(Format.CSV, data, 64 * MB)


def ingest(lake: Lake, folder: Path, **config: Any) -> IngestResult:
    """Ingest a folder."""
    return ingest_files(lake, IngestConfig(**config), FileRequest((str(folder),), "acme"))


def quarantined(lake: Lake) -> list[tuple[str, str]]:
    """What is in quarantine: the reason, and the name of the file."""
    rows = lake.table("quarantine").scan().to_arrow().to_pylist()
    return sorted((row["reason"], row["source"].rsplit("/", 1)[-1]) for row in rows)


def test_files_that_are_too_large_are_on_record_and_the_others_are_in(spark_lake: Lake, tmp_path: Path) -> None:
    """By their size they are not even read; by what they unpack to no further than the bound."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "logs-large.jsonl").write_bytes(b" " * 5000)
    (folder / "logs-bomb.jsonl.gz").write_bytes(gzip.compress(b" " * 50_000))
    (folder / "traces.binpb").write_bytes(traces(2))
    bounds = {"max_file_bytes": 4000, "max_unpacked_bytes": 20_000}
    for _run in range(2):  # a file that is too large by its size is recorded once
        result = ingest(spark_lake, folder, **bounds)
    assert [lost.path.rsplit("/", 1)[-1] for lost in result.lost] == ["logs-large.jsonl", "logs-bomb.jsonl.gz"]
    assert "it has 5000 bytes, and ingest.max_file_bytes is 4000; split the file, or raise the setting" in str(
        result.lost
    )
    assert all(lost.quarantined for lost in result.lost)
    assert spark_lake.table("spans").scan().count() == 2
    assert set(quarantined(spark_lake)) == {
        ("file_too_large", "logs-large.jsonl"),
        ("file_too_large", "logs-bomb.jsonl.gz"),
    }
    assert [name for _reason, name in quarantined(spark_lake)].count("logs-large.jsonl") == 1
    assert ingest(spark_lake, folder).files == 2  # raised, as the words said


def test_the_lakes_own_folders_are_never_read(spark_lake: Lake, tmp_path: Path) -> None:
    """Nor what links lead to there, however a file of theirs came to be planned."""
    folder, own = tmp_path / "in", tmp_path / "raw"
    for place in (folder, own):
        place.mkdir()
        (place / "traces.binpb").write_bytes(traces(2, first=len(place.name)))
    (folder / "link.binpb").symlink_to(own / "traces.binpb")
    request = FileRequest((str(tmp_path),), "acme")
    result = ingest_files(spark_lake, IngestConfig(), request, own=OwnFolders((str(own), spark_lake.lake.location)))
    assert (result.files, spark_lake.table("spans").scan().count()) == (1, 2)
    assert {path.rsplit("/", 1)[-1] for path in result.own} >= {"traces.binpb", "link.binpb"}


def deadly(lake: Lake, folder: Path, documents: SqlDocuments | None = None) -> FileJob:
    """A job whose worker is killed by the system when it comes to a file called poison."""

    def kill(path: str) -> str | None:
        if "poison" in path:
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    return FileJob(lake, IngestConfig(), FileRequest((str(folder),), "acme"), wall=kill, documents=documents)


@pytest.fixture
def documents(tmp_path: Path) -> SqlDocuments:
    """A store in a file."""
    return SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))


def test_a_file_that_kills_its_worker_costs_itself_only(
    spark_lake: Lake, tmp_path: Path, documents: SqlDocuments
) -> None:
    """Really killed, in a Spark task: it is in quarantine with its reason, and the rest of its batch in the tables."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "traces-1.binpb").write_bytes(traces(2))
    (folder / "traces-poison.binpb").write_bytes(traces(2, first=10))
    (folder / "logs-2.binpb").write_bytes(logs(3))
    result = deadly(spark_lake, folder, documents).run()
    assert (result.records, result.rejected) == ({"traces": 2, "logs": 3}, {"file_kills_worker": 1})
    assert [(lost.path.rsplit("/", 1)[-1], lost.quarantined) for lost in result.lost] == [("traces-poison.binpb", True)]
    assert quarantined(spark_lake) == [("file_kills_worker", "traces-poison.binpb")]
    assert (spark_lake.table("spans").scan().count(), spark_lake.table("logs").scan().count()) == (2, 3)
    assert list(documents.entries(SPACE)) == []
    # Where there is memory for it, the same command ingests it.
    again = ingest(spark_lake, folder)
    assert (again.records, again.resumed) == ({"traces": 2}, ())


def test_a_process_that_died_of_a_file_does_not_try_it_for_ever(
    spark_lake: Lake, tmp_path: Path, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts of processes that are gone count: the batch is taken apart, and the file is not opened again."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "traces-1.binpb").write_bytes(traces(2))
    (folder / "traces-poison.binpb").write_bytes(traces(2, first=10))
    died: list[int] = []

    class Died(BaseException):
        """Stands for the end of the process."""

    decode = FileJob._decode

    def die(job: FileJob, batch_id: str, files: Any) -> Any:
        if any("poison" in file.source.path for file in files):
            died.append(len(files))
            raise Died
        return decode(job, batch_id, files)

    monkeypatch.setattr(FileJob, "_decode", die)
    request = FileRequest((str(folder),), "acme")
    for _process in range(MAX_BATCH_ATTEMPTS + MAX_FILE_ATTEMPTS):
        with pytest.raises(Died):
            ingest_files(spark_lake, IngestConfig(), request, documents=documents)
    result = ingest_files(spark_lake, IngestConfig(), request, documents=documents)
    assert died == [2] * MAX_BATCH_ATTEMPTS + [1] * MAX_FILE_ATTEMPTS
    assert (result.records, result.rejected, len(result.resumed)) == ({"traces": 2}, {"file_kills_worker": 1}, 1)
    assert list(documents.entries(SPACE)) == []


def test_a_failure_that_kills_nobody_is_no_files_fault(
    spark_lake: Lake, tmp_path: Path, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warehouse that is away leaves the batch planned, however often; nothing goes to quarantine."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "traces.binpb").write_bytes(traces(2))
    request = FileRequest((str(tmp_path / "in"),), "acme")
    with monkeypatch.context() as patch:
        patch.setattr(FileJob, "_decode", lambda *_given: _fail())
        with pytest.raises(OSError, match="the warehouse is away"):
            ingest_files(spark_lake, IngestConfig(), request, documents=documents)
        for _run in range(MAX_BATCH_ATTEMPTS + 1):
            assert len(ingest_files(spark_lake, IngestConfig(), request, documents=documents).failed) == 1
    assert ingest_files(spark_lake, IngestConfig(), request, documents=documents).records == {"traces": 2}
    assert quarantined(spark_lake) == []


@pytest.mark.parametrize(
    ("error", "engine_is_gone", "counts"),
    [
        (KeyboardInterrupt(), False, False),
        (SystemExit(), False, False),
        (OSError("the warehouse is away"), False, False),
        (RuntimeError("the JVM does not answer"), True, True),
    ],
)
def test_an_attempt_counts_where_the_files_may_be_to_blame(
    documents: SqlDocuments,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    engine_is_gone: bool,
    counts: bool,
) -> None:
    """Not when a person stopped it or the storage failed; but when the whole engine is gone, memory may be why."""

    def fail(*_given: object) -> None:
        raise error

    monkeypatch.setattr(FileJob, "_decode", fail)
    monkeypatch.setattr("neve.ingest.files.job.engine_is_gone", lambda: engine_is_gone)
    job = FileJob(cast("Any", None), IngestConfig(), FileRequest((), "acme"), documents=documents)
    with pytest.raises(type(error)):
        job._decode_with_retries("b", [], FileAttempts(documents, "acme", "b"))
    [(_key, kept)] = documents.entries(SPACE)
    assert kept["together"] == int(counts)


def _fail() -> None:
    raise OSError("the warehouse is away")


def test_attempts_are_counted_before_they_begin(documents: SqlDocuments) -> None:
    """By batch and by file, in the store; a process that dies has counted."""
    for _process in range(MAX_BATCH_ATTEMPTS):
        assert FileAttempts(documents, "acme", "b").begin()
    assert not FileAttempts(documents, "acme", "b").begin()
    for _process in range(MAX_FILE_ATTEMPTS):
        assert FileAttempts(documents, "acme", "b").begin_alone("f")
    assert not FileAttempts(documents, "acme", "b").begin_alone("f")
    assert FileAttempts(documents, "acme", "b").begin_alone("g")
    assert FileAttempts(documents, "umbrella", "b").begin()
    FileAttempts(documents, "acme", "b").end()
    assert FileAttempts(documents, "acme", "b").begin()
