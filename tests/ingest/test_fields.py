"""Which field of a generic record means what, and where all the others go."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.ingest.config import FieldsConfig
from neve.ingest.files.foreign_schemas import fold_name
from neve.model.signals import Signal
from tests.ingest.samples import AT, SPAN, TRACE, Document, Row, configured, lines, logs, read, rows

LATER = AT + 5


def names(meaning: str) -> list[str]:
    """The common names of a meaning."""
    found: list[str] = list(getattr(FieldsConfig(), meaning))
    return found


KNOWN = {
    fold_name(name)
    for meaning, declared in FieldsConfig.model_fields.items()
    if isinstance(declared.default, tuple)
    for name in names(meaning)
}


def attributes(row: Row) -> dict[str, str | None]:
    """The attributes of a row."""
    return dict(row["attributes"])


def metric(document: Document) -> Row:
    """The row of one metric point."""
    [row] = rows(read("metrics.jsonl", lines({"ts": AT, "metric": "m", "value": 1} | document)))
    return row


def span(document: Document) -> Row:
    """The row of one span."""
    [row] = rows(read("spans.jsonl", lines({"start": AT, "trace_id": TRACE, "span_id": SPAN} | document)))
    return row


@pytest.mark.parametrize(
    ("meaning", "value", "column", "stored"),
    [
        ("time", AT, "time_unix_nano", AT),
        ("message", "boom", "message", "boom"),
        ("severity", "warn", "severity_text", "warn"),
        ("service", "cart", "service_name", "cart"),
        ("trace_id", TRACE, "trace_id", bytes.fromhex(TRACE)),
        ("span_id", SPAN, "span_id", bytes.fromhex(SPAN)),
    ],
)
def test_common_names_are_found(meaning: str, value: object, column: str, stored: object) -> None:
    """Every common name of a meaning fills its column, and is no attribute any more."""
    other = {"message": "m"} if meaning != "message" else {"time": AT}
    table = logs(*(other | {name: value} for name in names(meaning)))
    assert [row[column] for row in table] == [stored] * len(names(meaning))
    assert [row["attributes"] for row in table] == [[]] * len(table)


@pytest.mark.parametrize("name", names("name"))
def test_the_name_of_a_metric_and_of_a_span(name: str) -> None:
    """Metrics and spans share the common names of a name."""
    [row] = rows(read("metrics.jsonl", lines({"ts": AT, "value": 1, name: "load"})))
    assert (row["metric_name"], row["attributes"]) == ("load", [])
    assert span({name: "get"})["operation_name"] == "get"


@pytest.mark.parametrize("name", names("end"))
def test_the_end_of_a_span(name: str) -> None:
    """An end is a time like any other."""
    assert span({name: LATER})["end_time_unix_nano"] == LATER


@pytest.mark.parametrize("name", names("duration_ms"))
def test_the_duration_of_a_span(name: str) -> None:
    """Where there is no end the duration gives it, to the nanosecond."""
    assert span({name: 1.000001})["end_time_unix_nano"] == AT + 1_000_001


@pytest.mark.parametrize("name", names("parent_span_id"))
def test_the_parent_of_a_span(name: str) -> None:
    """Parents are found by their common names."""
    assert span({name: SPAN})["parent_span_id"] == bytes.fromhex(SPAN)


@pytest.mark.parametrize("name", names("attributes"))
def test_entries_of_an_object_of_attributes_are_attributes(name: str) -> None:
    """The object itself is gone, its entries are there beside the plain fields."""
    assert attributes(metric({name: {"host": "a"}, "zone": "b"})) == {"host": "a", "zone": "b"}


@pytest.mark.parametrize("name", names("resource"))
def test_entries_of_an_object_of_the_resource_describe_it(name: str) -> None:
    """They stand beside the service, with their types."""
    row = metric({name: {"host.name": "a", "cores": 4}, "service": "cart"})
    assert dict(row["resource_attrs"]) == {"host.name": "a", "cores": "4", "service.name": "cart"}
    assert dict(row["resource_attr_types"]) == {"cores": "int"}
    assert row["attributes"] == []


def test_without_service_or_resource_there_is_no_resource() -> None:
    """Nothing is made up."""
    assert logs({"message": "x"})[0]["resource_attrs"] is None


def test_attributes_keep_their_types() -> None:
    """JSON's types are the tables' types, nested values and nulls included."""
    given = {"t": "x", "i": -7, "d": 0.5, "b": True, "n": None, "a": [1, "x"], "m": {"k": [None]}, "l": 2**63 - 1}
    [row] = logs({"message": "m"} | given)
    types = {"i": "int", "d": "double", "b": "bool", "n": "empty", "a": "array", "m": "map", "l": "int"}
    assert dict(row["attribute_types"]) == types
    said = attributes(row)
    plain = {key: said[key] for key in ("t", "i", "d", "b", "n", "l")}
    assert plain == {"t": "x", "i": "-7", "d": "0.5", "b": "true", "n": None, "l": "9223372036854775807"}
    assert (json.loads(said["a"] or ""), json.loads(said["m"] or "")) == ([1, "x"], {"k": [None]})


def test_configured_names_replace_the_common_ones() -> None:
    """A configured name is the only one; a common name is then a field like any other."""
    fields = configured(time=["when"], message=["what's up"], severity=[], service=["k8s.app"])
    given = {"when": AT, "timestamp": LATER, "what's up": "hi", "message": "other", "level": "warn", "k8s.app": "cart"}
    [row] = logs(given, fields=fields)
    assert (row["time_unix_nano"], row["message"], row["service_name"]) == (AT, "hi", "cart")
    assert row["severity_text"] is None
    assert attributes(row) == {"timestamp": str(LATER), "message": "other", "level": "warn"}


def test_the_first_of_several_names_counts_and_the_others_stay() -> None:
    """With both `time` and `timestamp`, or `msg` and `message`, nothing is dropped."""
    [row] = logs({"time": LATER, "timestamp": AT, "msg": "second", "message": "first"})
    assert (row["time_unix_nano"], row["message"]) == (AT, "first")
    assert attributes(row) == {"time": str(LATER), "msg": "second"}


def test_a_null_field_leaves_the_meaning_to_the_next_name() -> None:
    """And is kept as an attribute without a value."""
    [row] = logs({"message": None, "msg": "hi"})
    assert (row["message"], attributes(row)) == ("hi", {"message": None})


def test_what_means_nothing_for_the_signal_is_an_attribute() -> None:
    """A log has no name, value, unit, end or duration; a metric no message; a span no severity."""
    given = {"name": "n", "value": 1, "unit": "s", "end": "e", "duration": 2, "parent_id": "p"}
    assert attributes(logs({"message": "m"} | given)[0]) == {key: str(value) for key, value in given.items()}
    for_others = {"message": "m", "level": "l", "app_version": "1"}
    assert attributes(metric(for_others | {"trace_id": "t"})) == for_others | {"trace_id": "t"}
    assert attributes(span(for_others | {"value": "1"})) == for_others | {"value": "1"}


def test_only_objects_are_objects_of_attributes() -> None:
    """A text called `attributes` is an attribute, and the next name with an object is used."""
    [row] = logs({"message": "m", "attributes": "plain", "labels": {"a": 1}, "tags": {"b": 2}, "resource": 5})
    assert attributes(row) == {"attributes": "plain", "a": "1", "tags": '{"b":2}', "resource": "5"}


def test_a_message_that_is_no_text_is_kept_as_text() -> None:
    """Objects and numbers are written out."""
    assert [row["message"] for row in logs({"message": {"a": 1}}, {"message": 5})] == ['{"a":1}', "5"]


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(
    st.lists(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(
                lambda name: fold_name(name) not in KNOWN
            ),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.integers(-(2**63), 2**63 - 1),
            max_size=4,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_other_field_becomes_an_attribute(documents: list[Document]) -> None:
    """Whatever its name, quotes and control characters included."""
    assert [attributes(row) for row in logs(*({"message": "m"} | document for document in documents))] == [
        {key: str(value) for key, value in document.items()} for document in documents
    ]


def test_a_plain_field_and_an_entry_of_the_same_name_both_survive() -> None:
    """Neither of the two values is dropped."""
    [row] = logs({"message": "m", "host": "plain", "attributes": {"host": "inner"}})
    assert "plain" in str(row["attributes"])
    assert "inner" in str(row["attributes"])


def test_a_service_and_another_service_name_of_the_resource_both_survive() -> None:
    """The name that is not used for the column is still somewhere in the row."""
    [row] = logs({"message": "m", "service": "cart", "resource": {"service.name": "shop"}})
    assert "cart" in str(row)
    assert "shop" in str(row)


def test_an_unused_duration_is_an_attribute() -> None:
    """With an end and a duration that disagrees, the duration is not dropped."""
    row = span({"end": AT + 1_000_000_000, "duration": 5})
    assert row["duration_ms"] == 1000.0
    assert attributes(row) == {"duration": "5"}


def test_signals_are_read_by_their_own_meanings() -> None:
    """The same document is a log, a metric point or a span, depending on what it is read as."""
    document = lines({"time": AT, "name": "n", "value": 1, "message": "m", "trace_id": TRACE, "span_id": SPAN})
    found = [rows(read(f"{signal}.jsonl", document))[0] for signal in Signal]
    assert [attributes(row) for row in found] == [
        {"name": "n", "value": "1"},
        {"message": "m", "trace_id": TRACE, "span_id": SPAN},
        {"value": "1", "message": "m"},
    ]
