"""Redaction of encoded messages: rules reach every place, and change nothing else."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.otlp.json import CLASSES
from neve.redaction.config import RedactionConfig
from neve.redaction.messages import WITHHELD, Malformed, _find_redactor, redact_message, redact_messages
from neve.redaction.rules import HASH_PREFIX, MASK, Hasher
from tests.otlp.messages import MESSAGES
from tests.redaction.fill import NOW, filled
from tests.telemetry import logs, metrics, text, traces

MARKER = "ada.lovelace-4711@example.com"
SALT = "0123456789abcdef"
EMAIL = r"\b[\w.+-]+@[\w-]+\.[a-z]+\b"
RULES: tuple[dict[str, Any], ...] = (
    {"pattern": EMAIL, "action": "hash"},
    {"pattern": r"\w\w+", "action": "mask"},
    {"pattern": "[a-c]", "action": "drop"},
    {"keys": ["key *", "plain"], "action": "drop"},
    {"keys": ["*a*", "nested"], "action": "hash"},
    {"keys": ["*"], "action": "mask"},
    {"pattern": r"\d+-\d+"},
)
SIGNALS = pytest.mark.parametrize("signal", list(Signal))


def config(*rules: dict[str, Any]) -> RedactionConfig:
    """A configuration of rules."""
    return RedactionConfig.model_validate({"rules": rules, "salt": SALT})


def redact(signal: Signal, message: bytes, *rules: dict[str, Any], organization: str = "acme") -> Any:
    """The redacted message, parsed."""
    return CLASSES[signal].FromString(redact_message(config(*rules), organization, signal, message))


def log(*attributes: KeyValue, body: AnyValue | None = None) -> bytes:
    """A message of one log record."""
    message: Any = CLASSES[Signal.LOGS]()
    record = LogRecord(time_unix_nano=NOW + 1, attributes=attributes, body=body)
    message.resource_logs.add().scope_logs.add().log_records.append(record)
    wire: bytes = message.SerializeToString()
    return wire


def record_of(message: Any) -> LogRecord:
    """Its log record."""
    record: LogRecord = message.resource_logs[0].scope_logs[0].log_records[0]
    return record


@SIGNALS
@pytest.mark.parametrize(
    ("action", "left"),
    [("mask", MASK), ("drop", ""), ("hash", Hasher.of(SALT, "acme").hash(MARKER.encode()))],
)
def test_a_pattern_reaches_every_text(signal: Signal, action: str, left: str) -> None:
    """In names, keys, values, bytes, nested values, resources, scopes, events, links and exemplars."""
    found = redact_message(config({"pattern": EMAIL, "action": action}), "acme", signal, filled(signal, MARKER))
    assert MARKER.encode() not in found
    assert CLASSES[signal].FromString(found) == CLASSES[signal].FromString(filled(signal, left))


@SIGNALS
def test_keys_are_redacted_wherever_attributes_are(signal: Signal) -> None:
    """Of records, resources, scopes, events, links, exemplars, and inside of nested maps."""
    found = redact(signal, filled(signal, MARKER), {"keys": ["key *", "PLAIN", "nested"], "action": "drop"})
    left = str(found)
    assert 'key: "' not in left or 'key: "in' in left
    assert "plain" not in left
    assert "nested" not in left


def test_actions_on_keys() -> None:
    """A dropped attribute is gone, a masked one is stars, and a hash is the same for a number and its text."""
    sent = log(
        text("a", "x"), text("b", "y"), KeyValue(key="c", value=AnyValue(int_value=42)), text("d", "42"), text("e", "z")
    )
    rules = (
        {"keys": ["a"], "action": "drop"},
        {"keys": ["b"], "action": "mask"},
        {"keys": ["c", "d"], "action": "hash"},
    )
    left = {one.key: one.value for one in record_of(redact(Signal.LOGS, sent, *rules)).attributes}
    assert set(left) == {"b", "c", "d", "e"}
    assert left["b"].string_value == MASK
    assert left["c"] == left["d"]
    assert left["c"].string_value.startswith(HASH_PREFIX)
    assert left["e"].string_value == "z"


def test_the_first_rule_of_a_key_applies() -> None:
    """A later rule with a wider glob leaves it alone."""
    found = redact(
        Signal.LOGS,
        log(text("user.id", "7")),
        {"keys": ["user.id"], "action": "mask"},
        {"keys": ["user.*"], "action": "drop"},
    )
    assert [one.value.string_value for one in record_of(found).attributes] == [MASK]


def test_hashes_join_records_of_one_organization_only() -> None:
    """Equal values are equal in every signal; another organization or salt has other hashes."""
    hashes = set()
    for organization in ("acme", "acme", "umbrella"):
        found = redact(
            Signal.LOGS, log(text("user", "ada")), {"keys": ["user"], "action": "hash"}, organization=organization
        )
        hashes.add(record_of(found).attributes[0].value.string_value)
    assert len(hashes) == 2


def test_several_matches_of_one_text() -> None:
    """Each match is replaced by itself, and the text between them stays."""
    body = AnyValue(string_value="from a@b.co to c@d.org, card 4111 1111 1111 1111.")
    rules = ({"pattern": EMAIL, "action": "hash"}, {"pattern": r"\d{4}(?: \d{4}){3}"})
    hasher = Hasher.of(SALT, "acme")
    expected = f"from {hasher.hash(b'a@b.co')} to {hasher.hash(b'c@d.org')}, card {MASK}."
    assert record_of(redact(Signal.LOGS, log(body=body), *rules)).body.string_value == expected


def test_rules_of_others_do_not_apply() -> None:
    """A rule names its organizations and signals; the message is then the same object."""
    sent = log(text("user", "ada"))
    for rule in ({"organizations": ["umbrella"]}, {"signals": ["traces"]}):
        assert redact_message(config({"keys": ["user"], **rule}), "acme", Signal.LOGS, sent) is sent


def test_messages_without_a_match_keep_their_bytes() -> None:
    """Also beside one with a match."""
    sent = [log(text("a", "x")), log(text("user", "ada")), log(text("b", "y"))]
    found = redact_messages(config({"keys": ["user"]}), "acme", Signal.LOGS, pa.array(sent, pa.binary())).to_pylist()
    assert [found[0], found[2]] == [sent[0], sent[2]]
    assert b"ada" not in found[1]


@pytest.mark.slow
@given(st.sampled_from(list(Signal)).flatmap(lambda signal: st.tuples(st.just(signal), MESSAGES[signal])))
def test_decoding_and_encoding_change_nothing(sent: tuple[Signal, Any]) -> None:
    """A rule that has to decode every message, and matches nothing, leaves the same message."""
    signal, message = sent
    wire = message.SerializeToString()
    nothing = config({"pattern": r"\Qnever a text\E"})
    assert CLASSES[signal].FromString(redact_message(nothing, "acme", signal, wire)) == message
    redact_message(config({"keys": ["*"], "action": "hash"}), "acme", signal, wire)  # every value can be replaced


@pytest.mark.slow
@given(
    st.sampled_from(list(Signal)).flatmap(lambda signal: st.tuples(st.just(signal), MESSAGES[signal])),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_regions_and_whole_messages_have_the_same_result(
    sent: tuple[Signal, Any], rules: list[dict[str, Any]], copies: int
) -> None:
    """Messages whose regions are replaced equal messages that are decoded whole, alone and in a column."""
    signal, message = sent
    wires = [message.SerializeToString() * copies, filled(signal, MARKER)]
    made = config(*rules)
    redactor = _find_redactor(made, "acme", signal, is_quick=False)
    assert redactor is not None
    expected = redactor.redact_whole(pa.array(wires, pa.binary())).to_pylist()
    alone = [redact_message(made, "acme", signal, wire) for wire in wires]
    assert redact_messages(made, "acme", signal, pa.array(wires, pa.binary())).to_pylist() == alone
    parse = CLASSES[signal].FromString
    assert [parse(one) for one in alone] == [parse(one) for one in expected]


def test_other_bytes_of_a_message_stay() -> None:
    """Unknown fields of the envelope and records without a match are not written again."""
    plain, marked, unknown = log(text("a", "x")), log(text("user", "ada")), b"\x7a\x03abc"
    rules = config({"keys": ["user"]})
    sent = plain + unknown + marked + plain + unknown
    alone = redact_message(rules, "acme", Signal.LOGS, marked)
    assert b"ada" not in alone
    assert redact_message(rules, "acme", Signal.LOGS, sent) == plain + unknown + alone + plain + unknown


def test_lengths_of_groups_are_written_again() -> None:
    """Of one byte, two and three, with texts that become shorter and longer."""
    for size in (1, 90, 120, 130, 16_250, 16_400, 100_000):
        sent = log(text("pad", "x" * size), text("user", "a"), text("end", "y"))
        for action in ("hash", "drop", "mask"):
            found = record_of(redact(Signal.LOGS, sent * 2, {"keys": ["user"], "action": action}))
            assert [one.key for one in found.attributes if one.key != "user"] == ["pad", "end"]
            assert len(found.attributes) == (2 if action == "drop" else 3)


@SIGNALS
def test_a_damaged_message_keeps_no_marker(signal: Signal) -> None:
    """Truncated or flipped bytes: what can't be decoded is withheld, or has no marker."""
    random, whole = Random(71), filled(signal, MARKER)
    rules = config({"pattern": EMAIL})
    for _ in range(150):
        bad = bytearray(whole[: random.randrange(1, len(whole))])
        for _flip in range(random.randrange(3)):
            bad[random.randrange(len(bad))] = random.randrange(256)
        if MARKER.encode() in bad:
            assert MARKER.encode() not in redact_message(rules, "acme", signal, bytes(bad))


def test_a_malformed_record_costs_itself() -> None:
    """It is withheld in its place, decoding rejects it, and its neighbour is stored redacted."""
    message = CLASSES[Signal.LOGS].FromString(log(text("user", "ada"))).SerializeToString()
    bad_record = b"\x32\x7fuser"
    scope = b"\x12" + bytes([len(bad_record)]) + bad_record
    joined = message + b"\x0a" + bytes([len(scope) + 2]) + b"\x12" + bytes([len(scope)]) + scope
    with pytest.raises(Malformed):
        redact_message(config({"keys": ["user"]}), "acme", Signal.LOGS, joined, is_quick=True)
    found = redact_message(config({"keys": ["user"]}), "acme", Signal.LOGS, joined)
    decoded = decode(Signal.LOGS, [found], Intake("acme", NOW))
    assert [(bad.reason, WITHHELD in bad.payload) for bad in decoded.rejected] == [("malformed_record", True)]
    assert decoded.batch.num_rows == 1
    assert b"ada" not in found


def test_values_that_are_nested_too_deep_are_withheld() -> None:
    """A bomb of nested lists with a marker inside ends, without the marker."""
    value = AnyValue(string_value=MARKER)
    for _ in range(40):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    found = redact_message(config({"pattern": EMAIL}), "acme", Signal.LOGS, log(body=value))
    assert MARKER.encode() not in found
    inside = AnyValue(kvlist_value=KeyValueList(values=[text("password", "hunter2"), text("user", "ada")]))
    body = record_of(redact(Signal.LOGS, log(body=inside), {"keys": ["password"], "action": "drop"})).body
    assert [one.key for one in body.kvlist_value.values] == ["user"]


@pytest.mark.parametrize(
    ("signal", "message"), [(Signal.TRACES, traces), (Signal.LOGS, logs), (Signal.METRICS, metrics)]
)
def test_resends_have_the_same_ids(signal: Signal, message: Any) -> None:
    """The same message twice, redacted each time, has the same records."""
    rules = config({"keys": ["service.*"], "action": "hash"})
    ids = [
        decode(signal, [redact_message(rules, "acme", signal, message(5))], Intake("acme", NOW)).batch.column(
            "record_id"
        )
        for _ in range(2)
    ]
    assert ids[0].equals(ids[1])
    assert len(ids[0].unique()) == 5
