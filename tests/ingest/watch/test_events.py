"""Each kind of event is understood; what is none is said; one bad record costs itself only."""

from __future__ import annotations

import doctest
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from neve.errors import InputError
from neve.ingest.files.formats import Format
from neve.ingest.watch import events
from neve.ingest.watch.events import AnnouncedFile, Announcements, RefusedFile, check_format, read_event
from neve.ingest.watch.places import Places
from neve.model.signals import Signal
from tests.ingest.watch.events import ETAG, as_bytes, eventbridge, minio, s3, s3_record, s3_test, sns

KEY = "otel/2026 11 15/traces+1%.json.gz"
AT = datetime(2026, 11, 15, 8, 30, 0, 125_000, UTC)
FILE = AnnouncedFile(f"s3://raw/{KEY}", 1024, ETAG, AT)


def read(document: Any) -> Announcements:
    """What a document announces."""
    return read_event(as_bytes(document))


def error_of(data: bytes) -> InputError:
    """Why bytes are no event."""
    with pytest.raises(InputError) as caught:
        read_event(data)
    return caught.value


def test_the_examples_are_true() -> None:
    """Those in the docstrings."""
    assert doctest.testmod(events).failed == 0


@pytest.mark.parametrize(
    "document",
    [
        s3(s3_record(KEY)),
        s3(s3_record(KEY, "ObjectCreated:CompleteMultipartUpload")),
        minio(KEY),
        sns(s3(s3_record(KEY))),
        sns(minio(KEY)),
        sns(sns(s3(s3_record(KEY)))),
    ],
    ids=["s3", "multipart", "minio", "sns", "sns of minio", "sns in sns"],
)
def test_a_stored_object_is_announced(document: Any) -> None:
    """With its plain key, whoever sent the event and however it came."""
    assert read(document) == Announcements((FILE,))
    assert read(document).to_ingest == (FILE,)


@pytest.mark.parametrize("wrap", [lambda document: document, sns], ids=["plain", "sns"])
def test_eventbridge_leaves_keys_as_they_are(wrap: Any) -> None:
    """A plus is a plus there, and a percent sign a percent sign."""
    [file] = read(wrap(eventbridge(KEY))).announced
    assert file == AnnouncedFile(f"s3://raw/{KEY}", 1024, ETAG, datetime(2026, 11, 15, 8, 30, tzinfo=UTC))


def test_a_plus_is_a_space_in_a_record() -> None:
    """As in a form."""
    record = s3_record("x")
    record["s3"]["object"]["key"] = "a+b%2Bc%20d/%C3%A9.json"
    assert read(s3(record)).announced[0].path == "s3://raw/a b+c d/é.json"


def test_a_short_event_of_minio_is_enough() -> None:
    """Its key is plain and begins with the bucket."""
    document = {"EventName": "s3:ObjectCreated:Put", "Key": "raw/a+b.json"}
    assert read(document).announced == (AnnouncedFile("s3://raw/a+b.json"),)


@pytest.mark.parametrize("wrap", [lambda document: document, sns], ids=["plain", "sns"])
def test_the_test_of_a_notification_announces_nothing(wrap: Any) -> None:
    """It is no error."""
    assert read(wrap(s3_test())) == Announcements()
    assert read(s3()) == Announcements()


@pytest.mark.parametrize(
    "document",
    [
        s3(s3_record("a.txt", "ObjectRemoved:Delete")),
        s3(s3_record("a.txt", "ObjectRemoved:DeleteMarkerCreated")),
        s3(s3_record("a.txt", "s3:ObjectRemoved:Delete")),
        s3(s3_record("a.txt", "LifecycleExpiration:Delete")),
        eventbridge("a.txt", "Object Deleted"),
    ],
)
def test_a_removed_object_is_told_and_not_taken_in(document: Any) -> None:
    """Whatever its name is."""
    found = read(document)
    assert [(file.path, file.removed) for file in found.announced] == [("s3://raw/a.txt", True)]
    assert (found.to_ingest, found.refused) == ((), ())


def test_a_bad_record_costs_itself_only() -> None:
    """The good ones are announced; each bad one has its place and a reason."""
    no_key, no_bucket, not_utf8 = s3_record("a.json"), s3_record("a.json"), s3_record("a.json")
    del no_key["s3"]["object"]["key"]
    no_bucket["s3"]["bucket"] = []
    not_utf8["s3"]["object"]["key"] = "%ff.json"
    records = [
        no_key,
        no_bucket,
        not_utf8,
        "text",
        None,
        s3_record("a.json", "ObjectTagging:Put"),
        s3_record("a.json") | {"eventSource": "aws:ses"},
        s3_record("a.json", bucket="a/b"),
        s3_record("readme.txt"),
        s3_record(KEY),
    ]
    found = read(s3(*records))
    assert found.announced == (FILE,)
    assert found.refused == (
        RefusedFile("Records[0]", "the object key is nothing, expected text"),
        RefusedFile("Records[1]", "s3.bucket is a list, expected a map"),
        RefusedFile("Records[2]", "the object key is '%ff.json', which is not UTF-8 after percent-decoding"),
        RefusedFile("Records[3]", "the record is 'text', expected a map"),
        RefusedFile("Records[4]", "the record is nothing, expected a map"),
        RefusedFile("Records[5]", "the event is 'ObjectTagging:Put', expected ObjectCreated:… or ObjectRemoved:…"),
        RefusedFile("Records[6]", "eventSource is 'aws:ses', expected aws:s3"),
        RefusedFile("Records[7]", "the bucket's name is 'a/b', expected letters, digits, dots, dashes, underscores"),
        RefusedFile("s3://raw/readme.txt", events.NAMES_NO_FORMAT),
    )


@pytest.mark.parametrize(
    ("size", "etag", "time"), [(-1, 5, "yesterday"), (True, None, 5), ("12", "", None), (2**63, "\ud800", "")]
)
def test_what_is_only_told_may_be_wrong(size: Any, etag: Any, time: Any) -> None:
    """The file is announced all the same."""
    record = s3_record("a.json") | {"eventTime": time}
    record["s3"]["object"] |= {"size": size, "eTag": etag}
    assert read(s3(record)).announced == (AnnouncedFile("s3://raw/a.json"),)


def test_paths_can_be_announced_by_hand() -> None:
    """One or several, in a bucket or on a disk, with what their names do not say."""
    assert read({"path": "s3://raw/a b+c%20.json"}).announced == (AnnouncedFile("s3://raw/a b+c%20.json"),)
    assert read({"path": "file:///data/a.json"}).announced == (AnnouncedFile("/data/a.json"),)
    document = {
        "paths": ["/data/a", "s3://raw/b"],
        "signal": "traces",
        "format": "otlp_proto",
        "organization": "acme",
    }
    said = {"signal": Signal.TRACES, "format": Format.OTLP_PROTO, "organization": "acme"}
    assert read(document).announced == (AnnouncedFile("/data/a", **said), AnnouncedFile("s3://raw/b", **said))  # type: ignore[arg-type]


def test_a_bad_path_costs_itself_only() -> None:
    """Relative ones are bad: nobody knows from where."""
    found = read(
        {"paths": ["a.json", "s3://raw", "s3:///a.json", "ftp://x/a.json", 5, "", "/a\0.json", "/a", "/b.csv"]}
    )
    assert [file.path for file in found.announced] == ["/b.csv"]
    assert [refused.what for refused in found.refused] == [f"paths[{place}]" for place in range(7)] + ["/a"]
    assert found.refused[0].reason == "paths[0] is 'a.json', expected an s3:// address or a path that begins with /"
    assert found.refused[1].reason == "the object key is '', expected text"
    assert found.refused[4].reason == "paths[4] is 5, expected text"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "the event is a list, expected a map"),
        ({}, "the event has no keys, expected an S3, MinIO, SNS or EventBridge event, or a path"),
        ({"a": 1, "b": 2}, "the event has 'a', 'b', expected an S3"),
        ({"Records": {}}, "Records is a map, expected a list"),
        ({"path": "/a.json", "paths": []}, "both path and paths are present, expected one of them"),
        ({"paths": "/a.json"}, "paths is '/a.json', expected a list"),
        ({"path": "/a.json", "sgnal": "logs"}, "unknown key 'sgnal', expected path, paths, signal"),
        ({"path": "/a.json", "signal": "spans"}, "signal is 'spans', expected one of logs, metrics, traces"),
        ({"path": "/a.json", "format": ["csv"]}, "format is a list, expected one of otlp_proto, "),
        ({"path": "/a.json", "organization": "a/b"}, "organization is 'a/b', expected 1 to 64 letters"),
        (eventbridge("a.json", "Object Tags Added"), "detail-type is 'Object Tags Added', expected 'Object Created'"),
        ({"detail-type": "Object Created", "detail": None}, "detail is nothing, expected a map"),
        ({"EventName": "s3:ObjectAccessed:Get", "Key": "raw/a.json"}, "the event is 's3:ObjectAccessed:Get', expected"),
        ({"Type": "SubscriptionConfirmation", "Message": "You have"}, "of the type 'SubscriptionConfirmation'"),
        ({"Type": "Notification", "Message": {}}, "has a map, expected a Notification"),
        (sns({}) | {"Message": "hello"}, "the event begins with 'hello' and is not JSON"),
    ],
)
def test_what_is_no_event_is_said(document: Any, words: str) -> None:
    """What was found, and what was expected."""
    assert words in error_of(as_bytes(document)).message


def test_bytes_that_are_no_json_are_said() -> None:
    """Their beginning only; an empty message, and one that is nested too deep, too."""
    assert error_of(b"x" * 5000).message == (
        f"the event begins with {b'x' * 40!r} and is not JSON, "
        "expected an S3, MinIO, SNS or EventBridge event, or a path"
    )
    assert error_of(b"").message.startswith("the event begins with nothing and is not JSON")
    assert "nested too deep" in error_of(b"[" * 100_000).message
    assert error_of(b'{"path": ' + b"1" * 5000 + b"}").message.startswith("the event begins with")


def test_an_envelope_is_opened_a_few_times() -> None:
    """Nobody sends dolls in dolls in dolls for a good reason."""
    document = s3(s3_record("a.json"))
    for _ in range(4):
        document = sns(document)
    assert "of the type 'Notification'" in error_of(as_bytes(document)).message


def test_filters_say_why() -> None:
    """The first that objects; none at all lets every file pass."""
    data = as_bytes(
        {"paths": ["s3://raw/acme/a.json", "s3://raw/b.json", "s3://raw/acme/../b.json", "s3://raw/acme/c"]}
    )
    places = Places({"acme": ("s3://raw/acme", "/data")}).wall("acme")
    found = read_event(data, (lambda file: places(file.path), check_format))
    assert [file.path for file in found.announced] == ["s3://raw/acme/a.json"]
    assert [refused.reason for refused in found.refused] == [
        "is not below s3://raw/acme/ or /data/ (watch.places of acme)",
        "has a '..' in its path",
        events.NAMES_NO_FORMAT,
    ]
    assert len(read_event(data, ()).announced) == 4


def test_an_event_announces_a_bounded_number_of_files() -> None:
    """One more is refused as a whole, before any of them is looked at."""
    few = {"paths": [f"s3://raw/{number}.json" for number in range(5)]}
    assert len(read_event(as_bytes(few), most=5).announced) == 5
    for document in (few, s3(*(s3_record(f"{number}.json") for number in range(5)))):
        with pytest.raises(InputError, match=r"more than 4 files.*watch.max_objects"):
            read_event(as_bytes(document), most=4)


def test_a_byte_order_mark_is_no_harm() -> None:
    """Some editors write one."""
    assert read_event(b"\xef\xbb\xbf" + json.dumps({"path": "/a.json"}).encode()).announced == (
        AnnouncedFile("/a.json"),
    )
