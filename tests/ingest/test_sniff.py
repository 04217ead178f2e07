"""What a file holds, told by its path and by its content."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.ingest.config import FieldsConfig
from neve.ingest.files.formats import (
    EXTENSIONS,
    Compression,
    Format,
    NameHints,
    find_json_signal,
    find_proto_signal,
    guess_signal,
    is_otlp_json,
    read_name,
)
from neve.ingest.files.reader import ReadOptions, read_messages
from neve.model.signals import Signal
from tests.ingest.samples import json_text, otlp
from tests.otlp.messages import MESSAGES
from tests.telemetry import traces

KEYS = {Signal.TRACES: "resourceSpans", Signal.LOGS: "resourceLogs", Signal.METRICS: "resourceMetrics"}
FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


def told(*messages: bytes) -> Signal | None:
    """The signal of protobuf messages by their bytes."""
    return find_proto_signal(pa.array(messages, pa.binary()))


@pytest.mark.parametrize(("packing", "compression"), [("", "none"), (".gz", "gzip"), (".zst", "zstd")])
@pytest.mark.parametrize("ending", EXTENSIONS)
@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_endings(ending: str, packing: str, compression: str, change: Callable[[str], str]) -> None:
    """Every ending says its format, whatever its case and whatever it is packed in."""
    assert read_name("a.b/x" + change(ending + packing)) == NameHints(EXTENSIONS[ending], Compression(compression))


@pytest.mark.parametrize("name", ["x", "x.gz", "x.txt", "json", "a.json/x", "x.json.bz2", "x.csv.bak"])
def test_other_endings_say_nothing(name: str) -> None:
    """Only the name's own end counts, not a folder's."""
    assert read_name(name).format is None


@pytest.mark.parametrize(
    ("path", "signal"),
    [
        ("traces.json", Signal.TRACES),
        ("x/spans-01.csv", Signal.TRACES),
        ("/data/metrics/part-0.parquet", Signal.METRICS),
        ("/data/metrics/2025/part-0.parquet", None),
        ("Metric_2025.csv", Signal.METRICS),
        ("var/log/app.jsonl", Signal.LOGS),
        ("k8s-events.csv", Signal.LOGS),
        ("logs/traces-01.binpb", Signal.TRACES),
        ("metrics/logs/x.pb", Signal.LOGS),
        ("catalog.csv", None),
        ("blog/dialogs.csv", None),
        ("backtrace/geometric.csv", None),
        ("x.json", None),
    ],
)
def test_hints_are_whole_words_and_the_nearest_counts(path: str, signal: Signal | None) -> None:
    """The file's own name comes first, then its folder's; folders further up say nothing."""
    assert guess_signal(path) is signal


@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize("indent", [None, 2])
def test_otlp_json_is_known_by_its_first_key(signal: Signal, indent: int | None) -> None:
    """On one line or pretty-printed."""
    text = json_text(signal, otlp(signal), indent=indent)
    assert is_otlp_json(text)
    assert find_json_signal(b"\n " + text) is signal
    assert find_json_signal(f'{{ "{KEYS[signal]}" :'.encode()) is signal


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"message": "resourceLogs"}', b'{"resource": 1}', b"\x0a\x05"])
def test_other_text_is_not_otlp_json(text: bytes) -> None:
    """The words inside a value do not count."""
    assert not is_otlp_json(text)
    assert find_json_signal(text) is None


@pytest.mark.slow
@pytest.mark.parametrize("signal", list(Signal))
@FEW
@given(data=st.data())
def test_protobuf_is_never_taken_for_another_signal(signal: Signal, data: st.DataObject) -> None:
    """Any message is told right or not at all."""
    assert told(data.draw(MESSAGES[signal]).SerializeToString()) in (signal, None)


@pytest.mark.parametrize("signal", list(Signal))
def test_an_ordinary_protobuf_message_is_known(signal: Signal) -> None:
    """A span with ids, a metric with a point and a log with a time and a body can't be anything else."""
    assert told(otlp(signal).SerializeToString()) is signal


@pytest.mark.parametrize("messages", [[], [b""], [b"\xff\xff"], [b"{}"]])
def test_bytes_without_records_are_of_no_signal(messages: list[bytes]) -> None:
    """Nothing, an empty message and garbage can't be told."""
    assert told(*messages) is None


def test_formats_have_the_names_that_users_write() -> None:
    """They are the values of --format."""
    assert [str(form) for form in Format][:6] == ["otlp_proto", "otlp_json", "json_lines", "csv", "parquet", "log"]
    assert {"syslog_3164", "syslog_5424", "access_common", "access_combined", "logback", "cri"} < set(Format)


@pytest.mark.parametrize("head", [b'{"resourceLogs": [{"scope', b"{}", b"noise"])
def test_a_spoilt_first_line_does_not_decide_what_a_file_is(head: bytes) -> None:
    """The lines behind it are OTLP all the same."""
    good = b'{"schemaUrl": "x", "resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityText": "INFO"}]}]}]}'
    [read] = read_messages("mixed.json", head + b"\n" + good, ReadOptions(), FieldsConfig())
    assert (read.signal, read.format) == (Signal.LOGS, Format.OTLP_JSON)
    assert sum(1 for wire in read.messages.to_pylist() if wire) == 1


def test_the_content_of_protobuf_beats_its_name() -> None:
    """A traces file in a folder of logs is a traces file."""
    [read] = read_messages("logs/otel.binpb", traces(3), ReadOptions(), FieldsConfig())
    assert read.signal is Signal.TRACES
