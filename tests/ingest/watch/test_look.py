"""Looking at announced files: what each answer of a store means, and how many requests it costs at most."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from neve.ingest.files.source_files import SourceFile, hash_files
from neve.ingest.watch.event_ingest import (
    CONCURRENT_REQUESTS,
    MAX_FAULTS,
    PERMANENT_ERRORS,
    MissingFile,
    TransientFault,
    stat_files,
)
from neve.lake.config import S3Config
from tests.ingest.watch.scripted_s3 import ScriptedStore, scripted_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    """A store that does as it is told."""
    with scripted_store() as running:
        yield running


def test_each_answer_is_told_apart(store: ScriptedStore) -> None:
    """Another region, a bad name and a broken store may pass; what is missing or denied does not."""
    store.objects["raw/a.json"] = b"{}"
    wishes = [
        ("acme", f"s3://{path}")
        for path in ("raw/a.json", "raw/gone.json", "elsewhere/a.json", "badly-named/a.json", "denied/a.json")
    ]
    found = [stat_files([wish], store.config)[wish] for wish in wishes]
    assert [type(one) for one in found] == [SourceFile, MissingFile, TransientFault, TransientFault, MissingFile]
    assert "eu-west-9" in str(found[2])
    assert "HTTP status 400" in str(found[3])


def test_a_host_that_nobody_knows_is_a_fault() -> None:
    """It may be known again later."""
    config = S3Config.model_validate({"endpoint": "http://no.such.host.invalid", "access_key": "a", "secret_key": "b"})
    [found] = stat_files([("acme", "s3://raw/a.json")], config).values()
    assert isinstance(found, TransientFault)
    assert "resolve" in found.reason


def test_a_bucket_that_fails_is_left_alone(store: ScriptedStore) -> None:
    """After a few requests, for the organization that asked; other buckets and other organizations are looked at."""
    store.objects["raw/a.json"] = b"{}"
    wishes = [("acme", f"s3://elsewhere/{number}.json") for number in range(200)]
    wishes += [("acme", "s3://raw/a.json"), ("umbrella", "s3://elsewhere/x.json")]
    found = stat_files(wishes, store.config)
    asked = Counter(key.partition("/")[0] for key in store.heads)
    # Requests under way when the last fault came are not called back.
    assert asked["elsewhere"] <= MAX_FAULTS + CONCURRENT_REQUESTS
    assert isinstance(found["acme", "s3://raw/a.json"], SourceFile)
    fault = found["umbrella", "s3://elsewhere/x.json"]
    assert isinstance(fault, TransientFault)
    assert fault == TransientFault(fault.reason)
    put_off = [one for one in found.values() if isinstance(one, TransientFault) and not one.tried]
    assert len(put_off) >= 200 - MAX_FAULTS - CONCURRENT_REQUESTS
    assert "s3://elsewhere failed before" in put_off[0].reason


def test_only_so_many_requests_are_under_way(store: ScriptedStore) -> None:
    """However many files an event announces."""
    store.objects |= {f"raw/{number}.json": b"{}" for number in range(100)}
    found = stat_files([("acme", f"s3://raw/{number}.json") for number in range(100)], store.config)
    assert all(isinstance(one, SourceFile) for one in found.values())
    assert len(store.heads) == 100
    assert store.most_at_once <= CONCURRENT_REQUESTS


def test_an_archived_object_is_there_and_can_not_be_read(store: ScriptedStore) -> None:
    """Its answer is final: only who archived it can bring it back."""
    store.objects["raw/a.json"] = bytes(1000)
    store.archived.add("raw/a.json")
    [found] = stat_files([("acme", "s3://raw/a.json")], store.config).values()
    assert isinstance(found, SourceFile)
    [said] = hash_files(store.config, (found,))
    assert isinstance(said, str)
    assert any(word in said for word in PERMANENT_ERRORS)


def test_what_is_no_regular_file_is_none(tmp_path: Path) -> None:
    """A folder, or a device that would be read for ever."""
    found = stat_files([("acme", str(tmp_path)), ("acme", "/dev/zero")], S3Config())
    assert set(found.values()) == {MissingFile("it is not a regular file")}
