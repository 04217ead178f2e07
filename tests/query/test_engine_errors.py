"""What whoever asked is told of an error, and what only the log says."""

from __future__ import annotations

import pytest

from neve.errors import LakeError, LimitExceeded, QueryError
from neve.query.engine_errors import FAILED, UNAVAILABLE, FilesMissing, StorageUnavailable, public_message

FILE = "/srv/lake/warehouse/telemetry/logs/data/organization_id=acme/00000-1-a.parquet"


@pytest.mark.parametrize(
    "place",
    [
        FILE,
        f"s3://bucket{FILE}",
        f"file://{FILE}",
        f"http://10.0.0.3:9000/bucket{FILE}",
        "/srv/lake/warehouse/telemetry/logs/metadata/00003-b.metadata.json",
        "/var/tmp/neve-spill/duckdb_temp_storage-0.tmp",  # noqa: S108 - not used
        "postgresql://neve@db-prod:5432/catalog",
        "jdbc:sqlite:/srv/lake/catalog.db",
        "s3a://bucket/key",
    ],
)
@pytest.mark.parametrize("form", ["can't read {}", "file '{}' is odd", 'in "{}": 3 bytes', "({}, 7)", "at {}, then"])
def test_places_of_the_lake_are_left_out(place: str, form: str) -> None:
    """Files, stores and catalogs, however they stand in a sentence; the rest of the sentence stays."""
    assert public_message(QueryError(form.format(place))) == form.format("…")
    assert public_message(LimitExceeded(form.format(place), limit="memory")) == form.format("…")


@pytest.mark.parametrize(
    "words",
    [
        "Could not convert string '/api/v1/cart/42' to INT32",
        "Could not convert string 'https://shop.example/cart?id=1' to INT32",
        "can't divide 1/2/3 by a/b",
        "'spnas' is not a table of the lake",
    ],
)
def test_words_of_users_stay(words: str) -> None:
    """Routes and links are telemetry."""
    assert public_message(QueryError(words)) == words


def test_errors_of_the_lake_itself_have_words_of_their_own() -> None:
    """Whatever they say of hosts and files."""
    secret = "could not translate host name db-prod"  # noqa: S105
    for error in (FilesMissing(secret), StorageUnavailable(secret), LakeError(secret)):
        assert public_message(error) == UNAVAILABLE
    assert public_message(RuntimeError(secret)) == FAILED
