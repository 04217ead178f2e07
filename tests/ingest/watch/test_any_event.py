"""Whatever a key is made of comes through; whatever a document is made of ends well."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InputError
from neve.ingest.watch.events import read_event
from tests.ingest.watch.events import as_bytes, eventbridge, minio, s3, s3_record, sns

# What S3 takes as a key: any Unicode text; a NUL can't be in a file's name anywhere else.
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200).map("{}.json".format)
WORDS = st.sampled_from(
    [
        "Records", "Type", "Message", "Notification", "Event", "s3:TestEvent", "detail-type", "detail", "bucket",
        "Object Created", "object", "name", "key", "s3", "eventName", "ObjectCreated:Put", "eventSource", "aws:s3",
        "EventName", "Key", "path", "paths", "signal", "logs", "format", "organization", "size", "eventTime", "raw/a",
    ]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), WORDS, st.just("/a.json")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text()), inner)),
    max_leaves=25,
)


@given(KEYS)
def test_any_key_comes_through_every_kind_of_event(key: str) -> None:
    """Encoded where the store encodes it, and as it is where not."""
    for document in (s3(s3_record(key)), minio(key), eventbridge(key), sns(s3(s3_record(key))), sns(eventbridge(key))):
        found = read_event(as_bytes(document))
        assert [file.path for file in found.announced] == [f"s3://raw/{key}"]
        assert found.refused == ()


@given(KEYS)
def test_any_path_can_be_announced_by_hand(key: str) -> None:
    """In a bucket and on a disk."""
    paths = [f"s3://raw/{key}", f"/data/{key}"]
    assert [file.path for file in read_event(as_bytes({"paths": paths})).announced] == paths


@pytest.mark.slow
@given(st.one_of(st.binary(), VALUES.map(as_bytes)))
def test_garbage_is_at_most_an_input_error(data: bytes) -> None:
    """And whatever is announced can be written down."""
    with suppress(InputError):
        found = read_event(data, ())
        for file in found.announced:
            assert file.path.startswith(("s3://", "/"))
            assert file.path.encode()


@pytest.mark.slow
@given(st.lists(VALUES), st.integers(0, 5))
def test_garbage_beside_a_good_record_costs_itself_only(garbage: list[Any], place: int) -> None:
    """Wherever it stands; nothing goes unaccounted for."""
    records = [*garbage[:place], s3_record("a.json"), *garbage[place:]]
    found = read_event(as_bytes(s3(*records)))
    assert "s3://raw/a.json" in {file.path for file in found.announced}
    assert len(found.announced) + len(found.refused) == len(records)


@pytest.mark.slow
@given(VALUES, st.sampled_from(["s3", "eventName", "eventSource", "eventTime"]))
def test_a_record_with_garbage_in_it_ends_well(value: Any, field: str) -> None:
    """It is announced or refused."""
    found = read_event(as_bytes(s3(s3_record("a.json") | {field: value})))
    assert len(found.announced) + len(found.refused) == 1
