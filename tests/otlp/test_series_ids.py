"""Ids of series and streams, as decoding writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.model.columns import STRING_MAP
from neve.model.series_identity import STREAM_ATTRIBUTES, make_series_ids, make_stream_ids
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.rollup.config import RollupConfig
from neve.rollup.definition import Definition
from neve.rollup.series_identity import SeriesIdentity, raw_names
from tests.otlp.messages import MESSAGES, NOW

if TYPE_CHECKING:
    from google.protobuf.message import Message

INTAKE = Intake("acme", NOW)
SOME = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def decode_rows(signal: Signal, messages: list[Message]) -> pa.RecordBatch:
    """Decode messages together."""
    return decode(signal, [message.SerializeToString() for message in messages], INTAKE).batch


@pytest.mark.slow
@SOME
@given(st.lists(MESSAGES[Signal.METRICS], min_size=1, max_size=2))
def test_ids_follow_from_the_columns(messages: list[Message]) -> None:
    """The id of a point is that of its stored columns, and the first word of its series' name in rollups."""
    rows = decode_rows(Signal.METRICS, messages)
    ids = rows.column("series_id")
    assert ids.null_count == 0
    assert ids.to_pylist() == make_series_ids({name: rows.column(name) for name in rows.schema.names}).to_pylist()
    table = pa.Table.from_batches([rows])
    names, _metric = raw_names(table, SeriesIdentity.of(table, Definition.of(RollupConfig())))
    assert names[:, 0].view(np.int64).tolist() == ids.to_pylist()


@pytest.mark.slow
@SOME
@given(MESSAGES[Signal.METRICS], MESSAGES[Signal.METRICS])
def test_ids_do_not_depend_on_other_messages(one: Message, other: Message) -> None:
    """A point has the same id alone and beside others."""
    together = decode_rows(Signal.METRICS, [one, other]).column("series_id").to_pylist()
    alone = [decode_rows(Signal.METRICS, [message]).column("series_id").to_pylist() for message in (one, other)]
    assert together == [*alone[0], *alone[1]]


def test_ids_stay_the_same() -> None:
    """Ids never change between releases, because tables hold them."""
    maps = pa.array([[("service.name", "cart"), ("host.name", "h1")], [("host.name", "h2")], None], STRING_MAP)
    empty = pa.nulls(3, STRING_MAP)
    columns = dict.fromkeys(("resource_attr_types", "scope_attrs", "scope_attr_types", "attribute_types"), empty)
    columns |= {
        "resource_attrs": maps,
        "attributes": pa.array([[("path", "/a")], [], None], STRING_MAP),
        "scope_name": pa.array(["lib", None, None]),
        "scope_version": pa.array(["1.0", None, None]),
        "metric_name": pa.array(["requests", "requests", "memory"]),
        "metric_type": pa.array(["sum", "sum", "gauge"]),
        "unit": pa.array(["1", None, "By"]),
        "aggregation_temporality": pa.array([2, 2, None], pa.int32()),
        "is_monotonic": pa.array([True, False, None]),
    }
    assert make_series_ids(columns).to_pylist() == [-3548188570218784901, -8338307206187490751, -2686273665382055176]
    assert make_stream_ids(maps).to_pylist() == [5107314072211846392, -7696910208926366575, -7696910208926366575]


def test_streams_have_18_labels() -> None:
    """Other attributes of a resource do not make another stream."""
    assert len(STREAM_ATTRIBUTES) == 18
    plain = [("service.name", "cart"), ("k8s.pod.name", "p1")]
    maps = pa.array([plain, [*plain, ("host.name", "h")], [*reversed(plain)], plain[:1]], STRING_MAP)
    first, second, third, other = make_stream_ids(maps).to_pylist()
    assert first == second == third != other
