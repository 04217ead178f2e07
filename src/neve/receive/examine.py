"""Examination of one plain body: bounds, JSON, then the records. It runs in the receiver or in a child process."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from neve.otlp.bounds import TooMany, check_bounds
from neve.otlp.json import check_json_bounds, measure_json, to_protobuf
from neve.otlp.json_enums import UNKNOWN_ENUM
from neve.raw.frame import Encoding
from neve.receive.check import Checked, MalformedPart, check_count, check_message
from neve.receive.refusal import Refusal, Verdict, malformed_error
from neve.redaction.config import RedactionConfig
from neve.redaction.messages import Malformed, redact_message

if TYPE_CHECKING:
    from neve.lake.child_process import Header
    from neve.otlp.bounds import Bounds
    from neve.otlp.decode_result import Intake, Rejected
    from neve.receive.config import ReceiverConfig

NO_REDACTION = RedactionConfig()


@dataclass(frozen=True)
class Rules:
    """Limits that a message must satisfy."""

    bounds: Bounds
    max_nesting: int
    redaction: RedactionConfig = NO_REDACTION

    @classmethod
    def of(cls, config: ReceiverConfig, redaction: RedactionConfig = NO_REDACTION) -> Rules:
        """Return the configured rules."""
        return cls(config.bounds, config.max_nesting, redaction)


@dataclass(frozen=True)
class Examined:
    """Result of the check of a message, and the message as protobuf if it was sent as JSON or is redacted.

    There is no such message if JSON has records that protobuf can't represent: the body is stored as it was sent, and
    ingestion quarantines these records. If rules of redaction apply, they are not stored: they can't be redacted.
    """

    checked: Checked
    message: bytes | None = None

    @property
    def header(self) -> Header:
        """Return the header of a child's response; the message follows separately."""
        checked = self.checked
        return {
            "records": checked.records,
            "rejected": dict(checked.rejected),
            "details": checked.details,
            "has_message": self.message is not None,
        }

    @classmethod
    def of(cls, header: Header, message: bytes) -> Examined:
        """Return the result from a child's response."""
        checked = Checked(header["records"], Counter(header["rejected"]), header["details"])
        return cls(checked, message if header["has_message"] else None)


def examine(
    signal: Signal, body: bytes, encoding: Encoding, intake: Intake, rules: Rules, *, is_quick: bool = False
) -> Examined:
    """Check a body against the rules, then its records; raises `Refusal` if it is not acceptable.

    `is_quick` raises `MalformedPart` for a body with malformed records: to find them takes long.
    """
    try:
        found = None if encoding is Encoding.PROTOBUF else read_json(signal, body, rules)
        plain = body if found is None else found.message
        check_bounds(signal, plain, rules.bounds)
    except TooMany as error:
        message = f"{error.message} (receiver.{error.setting})"
        raise Refusal(Verdict.TOO_LARGE, f"too_many_{error.entry.name.lower()}s", message) from None
    most, organization = rules.bounds.records, intake.organization_id
    try:
        redacted = redact_message(rules.redaction, organization, signal, plain, is_quick=is_quick)
    except Malformed:
        raise MalformedPart from None
    checked = check_message(signal, redacted, intake, most, is_quick=is_quick)
    if found is None or not found.rejected:
        return Examined(checked, None if redacted is body else redacted)
    for bad in found.rejected:
        checked.add_rejected(bad.reason, bad.detail, bad.records)
    check_count(checked.records, most)
    return Examined(checked, redacted if rules.redaction.select(organization, signal) else None)


@dataclass(frozen=True)
class JsonMessage:
    """A message that was sent as JSON, without records that have an unknown name of an enum, and these records."""

    message: bytes
    rejected: tuple[Rejected, ...] = ()


def read_json(signal: Signal, text: bytes, rules: Rules) -> JsonMessage:
    """Convert a JSON document to a message; raises `Refusal` if it is invalid, `TooMany` if it exceeds the bounds."""
    check_json(text, rules.max_nesting, rules.bounds)
    try:
        found = to_protobuf(signal, text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_a_message(signal, str(error)) from None
    for bad in found.rejected:
        if bad.reason != UNKNOWN_ENUM:
            raise malformed_error(bad.detail)
    if len(found.messages) != 1:
        raise _not_a_message(signal, f"it has {len(found.messages)} documents, expected one")
    return JsonMessage(found.messages[0].as_py(), found.rejected)


TOP_FIELDS = {Signal.TRACES: "resourceSpans", Signal.LOGS: "resourceLogs", Signal.METRICS: "resourceMetrics"}
PROTOBUF_FIELDS = {Signal.TRACES: "resource_spans", Signal.LOGS: "resource_logs", Signal.METRICS: "resource_metrics"}
MAX_READ_BYTES, MAX_NAMES, MAX_NAME_CHARACTERS = 64 * 1024, 5, 40


def warn_unrecognized(signal: Signal, text: bytes) -> str:
    """Return a warning for a JSON message without records whose fields are not those of the signal; else empty.

    OTLP requires that unknown fields are ignored, so the message is accepted. Its sender would never know.

    >>> warn_unrecognized(Signal.TRACES, b'{"resourceLogs": []}')
    'nothing was stored: the message has no resourceSpans, but resourceLogs, which belong to /v1/logs'
    >>> warn_unrecognized(Signal.LOGS, b'{"resourceLogs": []}')
    ''
    """
    if len(text) > MAX_READ_BYTES:  # an empty message is short; the others are not worth the time
        return f"nothing was stored: the message has no records in {TOP_FIELDS[signal]}"
    try:
        names = list(json.loads(text))
    except (ValueError, RecursionError):  # text that only the other reader accepts
        return ""
    if not names or {TOP_FIELDS[signal], PROTOBUF_FIELDS[signal]} & set(names):
        return ""
    found = ", ".join(name[:MAX_NAME_CHARACTERS] for name in names[:MAX_NAMES])
    others = [other for other in Signal if {TOP_FIELDS[other], PROTOBUF_FIELDS[other]} & set(names)]
    remedy = f", which belong to /v1/{others[0].value}" if others else ""
    return f"nothing was stored: the message has no {TOP_FIELDS[signal]}, but {found}{remedy}"


def check_json(text: bytes, max_nesting: int, bounds: Bounds | None = None) -> None:
    """Raise `Refusal` for text that is not a JSON object, or is too deeply nested or too large to be read safely."""
    if not text.lstrip()[:1] == b"{":
        raise malformed_error("the body is not a JSON object")
    shape = measure_json(text)
    if shape.depth > max_nesting:
        raise malformed_error(f"the body is nested {shape.depth} deep, receiver.max_nesting is {max_nesting}")
    if bounds is not None:
        check_json_bounds(shape, bounds)


def _not_a_message(signal: Signal, reason: str) -> Refusal:
    return malformed_error(f"not OTLP JSON for {signal}: {reason}")
