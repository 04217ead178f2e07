"""Attacks on announced files: no organization reads what is not in its own places, nor the lake itself."""

from __future__ import annotations

import doctest
import pickle
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from neve.app.serve.receiver import EventChecks
from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_lake, build_places
from neve.errors import ConfigError, InputError
from neve.ingest.config import WatchConfig
from neve.ingest.watch import places as places_module
from neve.ingest.watch.places import Places
from neve.lake.storage.paths import OwnFolders
from tests.ingest.watch.events import as_bytes, eventbridge, minio, s3, s3_record, sns

if TYPE_CHECKING:
    from pathlib import Path

    from neve.receive.events import CheckedEvent

ALLOWED = {"acme": ("s3://raw/acme", "/in/acme"), "umbrella": ("s3://raw/umbrella", "s3://secret-umbrella")}
OWN = OwnFolders(("s3://raw/acme/lake/warehouse", "s3://telemetry/lake", "/in/acme/lake"))
PLACES = Places(ALLOWED, OWN)

HOSTILE_PATHS = [
    # places of others, and buckets that are nobody's
    "s3://raw/umbrella/a.json",
    "s3://secret-umbrella/a.json",
    "s3://terraform/state.json",
    "s3://raw/a.json",
    # names that begin like a place
    "s3://raw/acme2/a.json",
    "s3://raw/acme.json",
    "s3://raw-acme/acme/a.json",
    "s3://raw/acm/a.json",
    "/in/acme2/a.json",
    "/in/acme.json",
    # the way up, plain and encoded
    "s3://raw/acme/../umbrella/a.json",
    "s3://raw/acme/./a.json",
    "s3://raw/acme/b/../../umbrella/a.json",
    "s3://raw/../raw/acme/a.json",
    "/in/acme/../umbrella/a.json",
    "/in/acme/../../etc/passwd.json",
    "/in/acme/./a.json",
    "s3://raw/%61cme/a.json",
    "s3://raw/acme%2fa.json",
    "s3://raw%2facme/a.json",
    "/in/%61cme/a.json",
    # empty names
    "s3://raw//acme/a.json",
    "s3://raw/acme//a.json",
    "//in/acme/a.json",
    "/in//acme/a.json",
    "/in/acme//a.json",
    "s3:///raw/acme/a.json",
    "s3://raw/acme/a.json/",
    # other schemes and spellings of a scheme
    "S3://raw/acme/a.json",
    "s3a://raw/acme/a.json",
    "s3n://raw/acme/a.json",
    "s3:/raw/acme/a.json",
    "gs://raw/acme/a.json",
    "http://169.254.169.254/latest/meta-data/a.json",
    "https://raw.s3.amazonaws.com/acme/a.json",
    "hdfs://raw/acme/a.json",
    "file:///etc/passwd.json",
    "file:///in/umbrella/a.json",
    "file://localhost/in/acme/a.json",
    "file:/in/acme/a.json",
    "FILE:///in/acme/a.json",
    # paths that depend on a folder or a user
    "in/acme/a.json",
    "./in/acme/a.json",
    "~/acme/a.json",
    "~root/in/acme/a.json",
    "\\in\\acme\\a.json",
    # buckets that look like the right one
    "s3://raw./acme/a.json",
    "s3://.raw/acme/a.json",
    "s3://RAW/acme/a.json",
    "s3://raw@evil/acme/a.json",
    "s3://user:key@raw/acme/a.json",
    "s3://raw:9000/acme/a.json",
    "s3://raw?x=/acme/a.json",
    "s3://raw#/acme/a.json",
    "s3://arn:aws:s3:eu-west-1:1:accesspoint:raw/acme/a.json",
    # letters that look like others
    "s3://raw/\u0430cme/a.json",
    "s3://raw/ac\u217fe/a.json",
    "s3://raw\uff0facme/a.json",
    "s3://r\u0430w/acme/a.json",
    "s3\uff1a//raw/acme/a.json",
    "/in/acm\u00e9/a.json",
    "/in/acme\u200b/a.json",
    "/in\uff0facme/a.json",
    # characters that nobody prints
    "s3://raw/acme/a\n.json",
    "s3://raw/acme/\x1b[2Ja.json",
    "/in/acme/a\r.json",
    "s3://raw/acme/\u202egnp.json",
    # dots and spaces at the end of a name
    "s3://raw/acme./a.json",
    "s3://raw/acme /a.json",
    "/in/acme./a.json",
    "/in/acme /a.json",
    # the lake itself, in a place that is allowed
    "s3://raw/acme/lake/warehouse/telemetry/logs/data/a.parquet",
    "s3://raw/acme/lake/warehouse/a.json",
    "s3://telemetry/lake/a.parquet",
    "/in/acme/lake/a.parquet",
    "/in/acme/lake/telemetry/logs/data/a.parquet",
]


def check(document: Any, organization: str = "acme", places: Places = PLACES) -> CheckedEvent:
    """What the door says of an event."""
    return EventChecks(places, 1000).check(organization, as_bytes(document))


def test_the_examples_are_true() -> None:
    """Those in the docstrings."""
    assert doctest.testmod(places_module).failed == 0


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_hostile_path_is_refused_in_every_form_of_event(path: str) -> None:
    """By hand and as a store's own event; the words name no place of another organization."""
    documents: list[Any] = [{"path": path}, {"path": path, "format": "json_lines", "signal": "logs"}]
    scheme, separator, rest = path.partition("://")
    bucket, slash, key = rest.partition("/")
    if separator and slash and scheme == "s3" and key:
        documents += [
            s3(s3_record(key, bucket=bucket)),
            {"Records": [s3_record("x", bucket=bucket) | {"s3": {"bucket": {"name": bucket}, "object": {"key": key}}}]},
            sns(s3(s3_record(key, bucket=bucket))),
            {"EventName": "s3:ObjectCreated:Put", "Key": f"{bucket}/{key}"},
        ]
    for document in documents:
        try:
            found = check(document)
        except InputError:
            continue
        # A percent sign in a store's event is its own spelling, which is undone before the path is looked at.
        if found.files:
            assert "%" in path
            assert "Records" in document
        else:
            words = " ".join(file.reason for file in found.refused)
            assert "umbrella" not in words.replace(path, "")


@pytest.mark.parametrize(
    "path",
    ["s3://raw/acme/a.json", "s3://raw/acme/2026/11/15/a b+c.json.gz", "/in/acme/x/a.csv", "file:///in/acme/a.json"],
)
def test_a_plain_path_in_a_place_is_accepted(path: str) -> None:
    """Also with spaces, plus signs and many folders."""
    assert check({"path": path}).files == 1


def test_stores_events_are_held_to_the_same_places() -> None:
    """However the store spells the key; encoded ways up are seen after they are decoded."""
    for key in (
        "../umbrella/a.json",
        "%2e%2e/umbrella/a.json",
        "b/%2E%2E/%2e%2e/umbrella/a.json",
        "lake%2Fwarehouse/a.json",
    ):
        found = check(s3({**s3_record("x"), "s3": {"bucket": {"name": "raw"}, "object": {"key": f"acme/{key}"}}}))
        assert (found.files, found.forbidden) == (0, True), key
    assert check(s3(s3_record("acme/a.json"))).files == 1
    assert check(sns(s3(s3_record("acme/a.json")))).files == 1
    assert check(minio("acme/a.json")).files == 1
    assert check(eventbridge("acme/a.json")).files == 1
    for document in (s3(s3_record("umbrella/a.json")), minio("umbrella/a.json"), eventbridge("umbrella/a.json")):
        assert check(document).forbidden


def test_nothing_may_be_announced_until_it_is_configured() -> None:
    """The words name the setting, so that whoever runs the service knows what to do."""
    [refused] = check({"path": "s3://raw/acme/a.json"}, places=Places()).refused
    assert refused.reason == "can't be announced: watch.places has no places for the organization acme"
    assert Settings().watch.places == {}
    assert check({"path": "s3://raw/acme/a.json"}, "stranger").forbidden


def test_an_event_that_is_refused_in_part_says_which() -> None:
    """The rest of it is ingested."""
    found = check({"paths": ["s3://raw/acme/a.json", "s3://raw/umbrella/b.json", "s3://raw/acme/c.txt"]})
    assert (found.files, [file.path for file in found.refused]) == (
        1,
        ["s3://raw/umbrella/b.json", "s3://raw/acme/c.txt"],
    )


def test_an_organization_in_the_event_is_not_believed() -> None:
    """A key speaks for one organization, whatever its owner writes."""
    assert check({"path": "s3://raw/umbrella/a.json", "organization": "umbrella"}).forbidden
    assert check({"path": "s3://raw/acme/a.json", "organization": "umbrella"}).files == 1


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    """Neither out of a place nor into the lake; a place may itself be a link."""
    place, other, lake = tmp_path / "acme", tmp_path / "umbrella", tmp_path / "acme" / "lake"
    for folder in (place, other, lake):
        folder.mkdir()
        (folder / "a.json").write_text("{}")
    (place / "folder").symlink_to(other)
    (place / "link.json").symlink_to(other / "a.json")
    (place / "chain").symlink_to(place / "folder")
    (place / "own").symlink_to(lake)
    (place / "gone").symlink_to(tmp_path / "nothing")
    (place / "loop").symlink_to(place / "loop")
    (place / "here.json").symlink_to(place / "a.json")
    (tmp_path / "alias").symlink_to(place)
    places = Places({"acme": (str(place), str(tmp_path / "alias"))}, OwnFolders((str(lake),)))
    wall = pickle.loads(pickle.dumps(places.wall("acme")))  # noqa: S301 - our own
    outside = ["folder/a.json", "link.json", "chain/a.json", "gone/a.json"]
    assert all("symbolic link" in str(wall(f"{place}/{path}")) for path in outside)
    assert all("of the lake itself" in str(wall(f"{place}/{path}")) for path in ("own/a.json", "lake/a.json"))
    assert wall(f"{place}/a.json") is wall(f"{place}/here.json") is wall(f"{tmp_path}/alias/a.json") is None


@given(st.text(min_size=1, max_size=60))
def test_whatever_is_behind_a_place_stays_there(rest: str) -> None:
    """Any text after the prefix of a place is refused, or is a plain name below that place."""
    for place in ("s3://raw/acme", "/in/acme"):
        if PLACES.problem("acme", f"{place}{rest}") is None:
            names = rest.split("/")
            assert rest.startswith("/")
            assert not {"", ".", ".."} & set(names[1:])
            assert names[1:2] != ["lake"] or place.startswith("s3://")


@given(st.text(min_size=1, max_size=30))
def test_no_spelling_reaches_another_bucket(name: str) -> None:
    """A bucket is allowed by every letter of its name."""
    if name != "raw":
        assert PLACES.problem("acme", f"s3://{name}/acme/a.json") is not None
        assert PLACES.problem("acme", f"s3://{quote(name)}/acme/a.json") is not None or quote(name) == "raw"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["s3://raw"], "should be a map from organizations to lists of places"),
        ({"acme": ["s3://"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["s3:///acme"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["/"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["in/acme"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["s3a://raw/acme"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["S3://raw/acme"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["file:///in"]}, "should be an s3:// prefix with a bucket"),
        ({"acme": ["s3://raw/../umbrella"]}, "has a '..' in its path"),
        ({"acme": ["s3://raw//acme"]}, "has an empty name in its path"),
        ({"acme": [""]}, "expected|should be"),
        ({"a c": ["s3://raw/acme"]}, "names of organizations"),
    ],
)
def test_a_bad_place_is_refused_at_the_start(value: object, words: str) -> None:
    """With the place, the organization and what was expected."""
    with pytest.raises(ValidationError, match=words):
        WatchConfig.model_validate({"places": value})


def test_places_come_from_a_file_or_a_variable() -> None:
    """A single place needs no list; a slash at its end is of no matter."""
    for text in ('{"acme": ["s3://raw/acme/"]}', '{"acme": "s3://raw/acme"}'):
        assert load_settings(None, {"NEVE_WATCH__PLACES": text}).watch.places == {"acme": ("s3://raw/acme",)}
    with pytest.raises(ConfigError, match=r"NEVE_WATCH__PLACES: got .*should be a map"):
        load_settings(None, {"NEVE_WATCH__PLACES": "s3://"})


def test_the_lake_itself_is_no_place(tmp_path: Path) -> None:
    """A place in one of its folders is refused at the start; one around them is held to what is outside of them."""
    names = {"lake": ("warehouse", "exchange"), "raw": ("location",), "ingest": ("checkpoints",), "state": ("path",)}
    values = {
        section: {key: str(tmp_path / key / ("state.db" if section == "state" else "")) for key in keys}
        for section, keys in names.items()
    }
    values["catalog"] = {"path": str(tmp_path / "catalog" / "catalog.db")}

    def places(*allowed: str) -> Places:
        settings = Settings.model_validate({**values, "watch": {"places": {"acme": allowed}}})
        return build_places(settings, build_lake(settings))

    for folder in ("warehouse", "exchange", "location", "checkpoints"):
        with pytest.raises(ConfigError, match=f"watch.places has '{tmp_path}/{folder}"):
            places(f"{tmp_path}/{folder}/in")
    around = places(str(tmp_path))
    inside = ["warehouse/a.json", "exchange/x/a.json", "location/events/a.json", "location/otlp/a.json"]
    files = [
        "checkpoints/a.json",
        "path/state.db",
        "path/state.db-wal",
        "catalog/catalog.db",
        "catalog/catalog.db-journal",
    ]
    assert all("of the lake itself" in str(around.problem("acme", f"{tmp_path}/{path}")) for path in inside + files)
    assert around.problem("acme", f"{tmp_path}/in/a.json") is None
