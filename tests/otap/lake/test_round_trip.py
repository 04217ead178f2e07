"""From OTLP to rows, to OTAP, to rows: nothing is lost but what OTAP has no words for, and that is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otap.from_lake import ENTITY_REFS
from neve.otap.values import INEXACT, UNSET
from tests.otap.lake.there_and_back import and_back, plain, rows_of
from tests.otlp.messages import MESSAGES

if TYPE_CHECKING:
    from google.protobuf.message import Message

THOROUGH = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)
SIGNALS = (Signal.LOGS, Signal.TRACES)


def sayable(message: Message) -> Message:
    """The same message with only what OTAP can say, attributes in the order that its files have them in."""
    for field, value in message.ListFields():
        if field.name == "entity_refs":
            message.ClearField("entity_refs")
        elif field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                sayable(item)
            if field.is_repeated and field.message_type.name == "KeyValue":
                _tidy(message, field.name)
    return message


def _tidy(message: Any, name: str) -> None:
    """Every entry with a value, no key twice, in the order of the keys' bytes."""
    entries = {entry.key: entry for entry in getattr(message, name)}
    for entry in entries.values():
        entry.value.SetInParent()
    ordered = sorted(entries.values(), key=lambda entry: str(entry.key).encode())
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in ordered]
    del getattr(message, name)[:]
    getattr(message, name).extend(copies)


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
@THOROUGH
@given(data=st.data())
def test_what_otap_can_say_comes_back_as_it_was(signal: Signal, data: st.DataObject) -> None:
    """Every column of every row is the same: organization, time of ingestion and record id included."""
    rows = rows_of(signal, sayable(data.draw(MESSAGES[signal])))
    back, losses = and_back(signal, rows)
    assert not losses
    assert back.equals(rows)


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
@THOROUGH
@given(data=st.data())
def test_what_is_lost_has_a_name(signal: Signal, data: st.DataObject) -> None:
    """Any message: where nothing was counted as lost, only the record id may differ, which hashes the order too."""
    rows = rows_of(signal, data.draw(MESSAGES[signal]))
    back, losses = and_back(signal, rows)
    assert set(losses) <= {UNSET, INEXACT, ENTITY_REFS}
    again, _none = and_back(signal, back)
    assert again.equals(back)
    if not losses:
        assert plain(back.drop_columns(["record_id"])) == plain(rows.drop_columns(["record_id"]))
