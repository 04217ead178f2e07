"""Everything that is asked of one plain body, in one function: it runs in the receiver or in a child process alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.otlp.bounds import TooMany, check_bounds
from neve.otlp.json import to_protobuf
from neve.otlp.json_bounds import check_json_bounds, measure_json
from neve.raw.frame import Encoding
from neve.receive.check import Checked, check
from neve.receive.refusal import Refusal, Verdict, malformed

if TYPE_CHECKING:
    from neve.lake.child import Header
    from neve.model.signals import Signal
    from neve.otlp.batch import Intake
    from neve.otlp.bounds import Bounds
    from neve.receive.config import ReceiverConfig


@dataclass(frozen=True)
class Rules:
    """What a message is held against."""

    bounds: Bounds
    max_nesting: int

    @classmethod
    def of(cls, config: ReceiverConfig) -> Rules:
        """The rules that users set."""
        return cls(config.bounds, config.max_nesting)


@dataclass(frozen=True)
class Examined:
    """What was found of a message, and the message as protobuf where it was sent as JSON."""

    checked: Checked
    message: bytes | None = None

    @property
    def header(self) -> Header:
        """What a child process says of it; the message goes beside it."""
        return {"records": self.checked.records, "rejected": dict(self.checked.rejected)}

    @classmethod
    def of(cls, header: Header, message: bytes) -> Examined:
        """What a child process said."""
        return cls(Checked(header["records"], Counter(header["rejected"])), message or None)


def examine(signal: Signal, body: bytes, encoding: Encoding, intake: Intake, rules: Rules) -> Examined:
    """Hold a body against the rules, then look at its records; raises `Refusal` when it is not acceptable."""
    try:
        message = None if encoding is Encoding.PROTOBUF else read_json(signal, body, rules)
        plain = body if message is None else message
        check_bounds(signal, plain, rules.bounds)
    except TooMany as error:
        words = f"{error.message} (receiver.{error.setting})"
        raise Refusal(Verdict.TOO_LARGE, f"too_many_{error.entry.name.lower()}s", words) from None
    return Examined(check(signal, plain, intake, rules.bounds.records), message)


def read_json(signal: Signal, text: bytes, rules: Rules) -> bytes:
    """The message that a JSON document says; raises `Refusal` when it says none, `TooMany` when it says too much."""
    check_json(text, rules.max_nesting, rules.bounds)
    try:
        found = to_protobuf(signal, text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_message(signal, str(error)) from None
    if found.rejected:
        raise malformed(found.rejected[0].detail)
    if len(found.messages) != 1:
        raise _no_message(signal, f"it holds {len(found.messages)} documents, expected one")
    message: bytes = found.messages[0].as_py()
    return message


def check_json(text: bytes, max_nesting: int, bounds: Bounds | None = None) -> None:
    """Raise `Refusal` for what is no JSON object, or one that is nested too deep or too large to be read safely."""
    if not text.lstrip()[:1] == b"{":
        raise malformed("the body is no JSON object")
    shape = measure_json(text)
    if shape.depth > max_nesting:
        raise malformed(f"the body is nested {shape.depth} deep, receiver.max_nesting is {max_nesting}")
    if bounds is not None:
        check_json_bounds(shape, bounds)


def _no_message(signal: Signal, words: str) -> Refusal:
    return malformed(f"not OTLP JSON for {signal}: {words}")
