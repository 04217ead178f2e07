"""Looking at announced files: what each answer of a store means, and how many requests it costs at most."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from neve.ingest.files.find import SourceFile
from neve.ingest.files.hashing import hash_files
from neve.ingest.watch.intake import FINAL
from neve.ingest.watch.look import AT_ONCE, MOST_FAULTS, Fault, Gone, look_at_all
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
    found = [look_at_all([wish], store.config)[wish] for wish in wishes]
    assert [type(one) for one in found] == [SourceFile, Gone, Fault, Fault, Gone]
    assert "eu-west-9" in str(found[2])
    assert "HTTP status 400" in str(found[3])


def test_a_host_that_nobody_knows_is_a_fault() -> None:
    """It may be known again later."""
    config = S3Config.model_validate({"endpoint": "http://no.such.host.invalid", "access_key": "a", "secret_key": "b"})
    [found] = look_at_all([("acme", "s3://raw/a.json")], config).values()
    assert isinstance(found, Fault)
    assert "resolve" in found.reason


def test_a_bucket_that_fails_is_left_alone(store: ScriptedStore) -> None:
    """After a few requests, for the organization that asked; other buckets and other organizations are looked at."""
    store.objects["raw/a.json"] = b"{}"
    wishes = [("acme", f"s3://elsewhere/{number}.json") for number in range(200)]
    wishes += [("acme", "s3://raw/a.json"), ("umbrella", "s3://elsewhere/x.json")]
    found = look_at_all(wishes, store.config)
    asked = Counter(key.partition("/")[0] for key in store.heads)
    # Requests under way when the last fault came are not called back.
    assert asked["elsewhere"] <= MOST_FAULTS + AT_ONCE
    assert isinstance(found["acme", "s3://raw/a.json"], SourceFile)
    assert found["umbrella", "s3://elsewhere/x.json"] == Fault(found["umbrella", "s3://elsewhere/x.json"].reason)  # type: ignore[union-attr]
    put_off = [one for one in found.values() if isinstance(one, Fault) and not one.tried]
    assert len(put_off) >= 200 - MOST_FAULTS - AT_ONCE
    assert "s3://elsewhere failed before" in put_off[0].reason


def test_only_so_many_requests_are_under_way(store: ScriptedStore) -> None:
    """However many files an event announces."""
    store.objects |= {f"raw/{number}.json": b"{}" for number in range(100)}
    found = look_at_all([("acme", f"s3://raw/{number}.json") for number in range(100)], store.config)
    assert all(isinstance(one, SourceFile) for one in found.values())
    assert len(store.heads) == 100
    assert store.most_at_once <= AT_ONCE


def test_an_archived_object_is_there_and_can_not_be_read(store: ScriptedStore) -> None:
    """Its answer is final: only who archived it can bring it back."""
    store.objects["raw/a.json"] = bytes(1000)
    store.archived.add("raw/a.json")
    [found] = look_at_all([("acme", "s3://raw/a.json")], store.config).values()
    assert isinstance(found, SourceFile)
    [said] = hash_files(store.config, (found,))
    assert isinstance(said, str)
    assert any(word in said for word in FINAL)


def test_what_is_no_regular_file_is_none(tmp_path: Path) -> None:
    """A folder, or a device that would be read for ever."""
    found = look_at_all([("acme", str(tmp_path)), ("acme", "/dev/zero")], S3Config())
    assert set(found.values()) == {Gone("it is no regular file")}
