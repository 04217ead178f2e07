"""Messages are decoded in runs that take little memory, whatever they hold."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.ingest import decoder
from neve.ingest.decoder import split_messages_into_chunks
from neve.model.signals import Signal
from neve.otlp.bounds import Bounds
from tests.receive.doubles import field
from tests.telemetry import logs

BOUNDS = Bounds(groups=50, records=100, attributes=100)


def scopes(count: int) -> bytes:
    """A message of empty scopes, two bytes each."""
    return field(1, b"\x12\x00" * count)


def test_a_message_over_its_bounds_is_refused_undecoded() -> None:
    """With the bound and its bytes; its neighbours are decoded as always."""
    messages = pa.array([logs(1), scopes(60), logs(2)], pa.binary())
    first, refused, last = split_messages_into_chunks(Signal.LOGS, messages, BOUNDS)
    assert (first.messages.to_pylist(), first.start) == ([logs(1)], 0)
    assert (last.messages.to_pylist(), last.start) == ([logs(2)], 2)
    [bad] = refused.rejected
    assert (bad.reason, bad.payload, refused.start, len(refused.messages)) == ("overgrown_message", scopes(60), 1, 0)
    assert bad.detail == "the message has more than 50 groups (resources, scopes and metrics) (ingest.max_groups)"


def test_groups_make_a_message_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred bytes of empty scopes fill a run that a hundred bytes of records would not."""
    monkeypatch.setattr(decoder, "FOREIGN_BYTES", 5000)
    heavy = pa.array([scopes(40)] * 6, pa.binary())
    light = pa.array([logs(2)] * 6, pa.binary())
    assert [len(chunk.messages) for chunk in split_messages_into_chunks(Signal.LOGS, heavy, BOUNDS)] == [1] * 6
    assert [len(chunk.messages) for chunk in split_messages_into_chunks(Signal.LOGS, light, BOUNDS)] == [6]
    assert [len(chunk.messages) for chunk in split_messages_into_chunks(Signal.LOGS, heavy, None)] == [6]


@given(sizes=st.lists(st.integers(0, 80), max_size=12), limit=st.integers(1, 3000))
def test_every_message_is_in_one_run(sizes: list[int], limit: int) -> None:
    """In its order, decoded or refused."""
    messages = [scopes(size) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "FOREIGN_BYTES", limit)
        found = list(split_messages_into_chunks(Signal.LOGS, pa.array(messages, pa.binary()), BOUNDS))
    places = [place for chunk in found for place in range(chunk.start, chunk.start + max(1, len(chunk.messages)))]
    assert places == list(range(len(sizes)))
    assert [bad.payload for chunk in found for bad in chunk.rejected] == [scopes(size) for size in sizes if size >= 50]
