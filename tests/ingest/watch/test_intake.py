"""One event never stops the others: faults of a store, of a file and of an organization, each by itself."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.errors import LakeError
from neve.ingest.config import IngestConfig, WatchConfig
from neve.ingest.files import job as job_module
from neve.ingest.files.job import FileJob
from neve.ingest.watch.event_ingest import EventIngester
from neve.ingest.watch.events import Event
from neve.ingest.watch.places import Places
from neve.ingest.watch.retries import SPACE
from neve.lake.config import S3Config
from neve.lake.storage.paths import OwnFolders
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.ingest.watch.scripted_s3 import ScriptedStore, scripted_store
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from tests.parts.s3 import S3

ALLOWED = {
    "acme": ("s3://raw/acme", "s3://elsewhere", "s3://badly-named", "s3://gone-away"),
    "umbrella": ("s3://raw/umbrella",),
}


def event(owner: str, *paths: str, position: int = 0, **said: Any) -> Event:
    """An event as it comes from the raw zone."""
    return Event("raw:w/1", position, json.dumps({"paths": paths, **said}).encode(), owner)


@dataclass
class House:
    """An intake over a lake, and what came of it."""

    lake: Lake
    folder: Path
    config: IngestConfig
    watch: WatchConfig
    places: Places

    def __post_init__(self) -> None:
        """A store of documents that outlives every intake."""
        self.documents = SqlDocuments(StateStore(StateConfig(path=str(self.folder / "state.db"))))

    def intake(self) -> EventIngester:
        """A process that was just started."""
        return EventIngester(self.lake, self.config, self.watch, self.places, self.documents, "watch")

    def reasons(self) -> list[tuple[str, str]]:
        """What is in quarantine, for whom."""
        rows = self.lake.table("quarantine").scan().to_arrow().to_pylist()
        return sorted((row["organization_id"], row["reason"]) for row in rows)

    def rows(self, table: str) -> dict[str, int]:
        """How many rows of each organization a table has."""
        owners = self.lake.table(table).scan().to_arrow().column("organization_id").to_pylist()
        return {owner: owners.count(owner) for owner in set(owners)}

    def waiting(self) -> list[dict[str, object]]:
        """The files that wait for another attempt."""
        return [document for _key, document in self.documents.entries(SPACE)]


def house(lake: Lake, folder: Path, s3: S3Config | None = None, places: Any = None, **watch: Any) -> House:
    """An intake whose retries are due at once."""
    found = Places(ALLOWED if places is None else places, OwnFolders((lake.lake.location,)))
    config = WatchConfig.model_validate({"retry_seconds": 0, "attempts": 3, **watch})
    return House(replace(lake, s3=s3) if s3 else lake, folder, IngestConfig(), config, found)


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    """A store that does as it is told."""
    with scripted_store() as running:
        yield running


@contextmanager
def failing(lake: Lake, organization: str, error: Exception) -> Iterator[None]:
    """Let every job of an organization fail."""
    run = FileJob.run

    def fail(job: FileJob) -> Any:
        if job.request.organization_id == organization:
            raise error
        return run(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_module.FileJob, "run", fail)
        yield


def test_faults_of_a_store_cost_themselves_only(spark_lake: Lake, tmp_path: Path, store: ScriptedStore) -> None:
    """Another region, a bad name, an archive, a store that is away: the good files of everybody are in at once."""
    store.objects |= {f"raw/{owner}/traces.binpb": traces(2, first=n) for n, owner in ((0, "acme"), (9, "umbrella"))}
    store.objects["raw/acme/logs-archived.json"] = bytes(1000)
    store.archived.add("raw/acme/logs-archived.json")
    store.away.add("gone-away")
    place = house(spark_lake, tmp_path, store.config)
    events = [
        event("acme", "s3://elsewhere/logs.json", position=0),
        event("acme", "s3://badly-named/logs.json", position=1),
        event("acme", "s3://gone-away/logs.json", position=2),
        event("acme", "s3://raw/acme/logs-archived.json", position=3),
        event("acme", "s3://raw/acme/traces.binpb", position=4),
        event("umbrella", "s3://raw/umbrella/traces.binpb", position=5),
    ]
    result = place.intake().ingest(events, {"w": 2})
    assert (result.records, result.positions) == ({"traces": 4}, {"w": 2})
    assert place.rows("spans") == {"acme": 2, "umbrella": 2}
    assert place.reasons() == [("acme", "announced_file_lost")]
    assert len(place.waiting()) == 3
    for _attempt in range(2):  # by processes that were started anew
        place.intake().retry()
    assert place.waiting() == []
    assert place.reasons() == [("acme", "announced_file_lost")] * 4
    details = [row["detail"] for row in place.lake.table("quarantine").scan().to_arrow().to_pylist()]
    assert sum("failed 3 times (watch.attempts)" in detail for detail in details) == 3
    assert place.intake().retry() is None


def test_files_wait_while_spark_does_not_run(lake: Lake, tmp_path: Path, store: ScriptedStore) -> None:
    """A stop during the start of Spark uses up no attempt, and Spark is not started if nothing is due."""
    starts: list[str] = []

    def stopped() -> bool:
        starts.append("stopped")
        return False

    store.away.add("gone-away")
    place = house(lake, tmp_path, store.config)
    assert place.intake().retry(stopped) is None
    assert starts == []
    place.intake().ingest([event("acme", "s3://gone-away/traces.binpb")], {})
    before = place.waiting()
    assert place.intake().retry(stopped) is None
    assert (starts, place.waiting(), len(before)) == (["stopped"], before, 1)


def test_a_store_that_comes_back_has_lost_nothing(spark_lake: Lake, tmp_path: Path, store: ScriptedStore) -> None:
    """The file is in the tables once, and nothing of it in quarantine."""
    store.objects["gone-away/traces.binpb"] = traces(3)
    store.away.add("gone-away")
    place = house(spark_lake, tmp_path, store.config)
    assert place.intake().ingest([event("acme", "s3://gone-away/traces.binpb")], {}).records == {}
    store.away.clear()
    result = place.intake().retry()
    assert result is not None
    assert (result.records, result.messages) == ({"traces": 3}, 0)
    assert (place.rows("spans"), place.reasons(), place.waiting()) == ({"acme": 3}, [], [])


def test_what_the_door_let_through_is_refused_in_the_stream(spark_lake: Lake, tmp_path: Path) -> None:
    """Put on record with its reason and not tried again; a thousand refused files keep the event's text once."""
    inside, secret = tmp_path / "in", tmp_path / "other"
    for folder in (inside, secret):
        folder.mkdir()
        (folder / "traces.binpb").write_bytes(traces(2))
    (inside / "link.binpb").symlink_to(secret / "traces.binpb")
    table = spark_lake.table("spans").location().removeprefix("file://")
    place = house(spark_lake, tmp_path, places={"acme": (str(tmp_path / "in"), table)})
    paths = [
        f"{inside}/link.binpb",
        f"{secret}/traces.binpb",
        f"{inside}/../other/traces.binpb",
        f"{table}/data/a.parquet",
    ]
    result = place.intake().ingest([event("acme", *paths, signal="traces")], {})
    assert (result.records, result.rejected) == ({}, {"refused_announcement": 4})
    assert (place.waiting(), place.reasons()) == ([], [("acme", "refused_announcement")] * 4)
    payloads = [row["payload"] for row in place.lake.table("quarantine").scan().to_arrow().to_pylist()]
    assert sorted(map(bool, payloads)) == [False, False, False, True]


def test_a_trusted_sender_names_an_organization_with_its_places(spark_lake: Lake, tmp_path: Path) -> None:
    """Kafka's events may; the places are those of the one that is named, and so is the record of a refusal."""
    for owner in ("acme", "umbrella"):
        (tmp_path / owner).mkdir()
        (tmp_path / owner / "traces.binpb").write_bytes(traces(2, first=len(owner)))
    place = house(spark_lake, tmp_path, places={owner: (str(tmp_path / owner),) for owner in ("acme", "umbrella")})
    foreign = str(tmp_path / "umbrella" / "traces.binpb")
    trusted = replace(event("acme", foreign, organization="umbrella"), may_name_organization=True)
    assert place.intake().ingest([trusted], {}).records == {"traces": 2}
    assert place.rows("spans") == {"umbrella": 2}
    own = replace(event("acme", str(tmp_path / "acme" / "traces.binpb"), organization="umbrella", position=1))
    wrong = replace(own, position=2, may_name_organization=True)
    place.intake().ingest([own, wrong], {})
    assert place.rows("spans") == {"umbrella": 2, "acme": 2}
    assert place.reasons() == [("umbrella", "refused_announcement")]


def test_a_file_that_changes_into_a_link_is_not_followed(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that reads it asks again: what was a file when it was looked at leads elsewhere now."""
    (tmp_path / "in").mkdir()
    file, secret = tmp_path / "in" / "traces.binpb", tmp_path / "secret.binpb"
    secret.write_bytes(traces(2))
    file.write_bytes(traces(2))
    claim = FileJob._claim

    def swap(job: FileJob, *given: Any) -> Any:
        file.unlink()
        file.symlink_to(secret)
        return claim(job, *given)

    monkeypatch.setattr(FileJob, "_claim", swap)
    place = house(spark_lake, tmp_path, places={"acme": (str(tmp_path / "in"),)})
    result = place.intake().ingest([event("acme", str(file))], {})
    assert (result.records, result.rejected) == ({}, {"announced_file_lost": 1})
    assert place.rows("spans") == {}


def test_a_job_that_fails_is_one_organizations_own(spark_lake: Lake, tmp_path: Path) -> None:
    """Its files wait, those of others are in the tables. A lake that fails is everybody's: the batch comes again."""
    for owner in ("acme", "umbrella"):
        (tmp_path / owner).mkdir()
        (tmp_path / owner / "logs.binpb").write_bytes(logs(2, first=len(owner)))
    place = house(spark_lake, tmp_path, places={owner: (str(tmp_path / owner),) for owner in ("acme", "umbrella")})
    events = [
        event(owner, str(tmp_path / owner / "logs.binpb"), position=n) for n, owner in enumerate(("acme", "umbrella"))
    ]
    with failing(spark_lake, "acme", LakeError("no catalog")), pytest.raises(LakeError):
        place.intake().ingest(events, {})
    with failing(spark_lake, "acme", RuntimeError("a bug")):
        assert place.intake().ingest(events, {}).records == {"logs": 2}
    assert [document["organization"] for document in place.waiting()] == ["acme"]
    result = place.intake().retry()
    assert result is not None
    assert (result.records, place.rows("logs")) == ({"logs": 2}, {"acme": 2, "umbrella": 2})
    assert (place.waiting(), place.reasons()) == ([], [])


@pytest.mark.parts
def test_files_in_a_bucket_are_announced_by_their_owner(spark_lake: Lake, tmp_path: Path, s3: S3) -> None:
    """Against a whole S3 server: own files are ingested, those of others are not, and what is missing is on record."""
    config = S3Config.model_validate(
        {"endpoint": s3.endpoint, "region": s3.region, "access_key": s3.access_key, "secret_key": s3.secret_key}
    )
    filesystem = pafs.S3FileSystem(
        endpoint_override=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        region=s3.region,
        allow_bucket_creation=True,
    )
    filesystem.create_dir("raw-watch")
    for owner in ("acme", "umbrella"):
        with filesystem.open_output_stream(f"raw-watch/{owner}/traces.binpb") as stream:
            stream.write(pa.py_buffer(traces(2, first=len(owner))))
    place = house(spark_lake, tmp_path, config, places={"acme": ("s3://raw-watch/acme", "s3://no-such-bucket")})
    paths = [f"s3://raw-watch/{path}" for path in ("acme/traces.binpb", "umbrella/traces.binpb", "acme/gone.json")]
    result = place.intake().ingest([event("acme", *paths, "s3://no-such-bucket/a.json")], {})
    assert (result.records, place.rows("spans")) == ({"traces": 2}, {"acme": 2})
    assert result.rejected == {"refused_announcement": 1, "announced_file_missing": 2}
