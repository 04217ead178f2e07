"""Whatever bytes are decoded, nothing is raised, and each record that can be counted is accepted or refused."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode
from neve.otlp.envelope import NAMES
from neve.otlp.metrics import METRIC
from neve.otlp.protobuf import MESSAGES, POINTS, message_class, parse_messages
from tests.otlp.damage import NOW, damaged, whole

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
WHOLE = whole()
ROUNDS = 100  # of each signal; by hand 20,000 were run
each_signal = pytest.mark.parametrize("signal", list(Signal))


def records(signal: Signal, wire: bytes) -> list[bytes] | None:
    """The records of a message by protobuf's own reader, as bytes; nothing when it is malformed."""
    try:
        message: Any = message_class(MESSAGES[signal]).FromString(wire)
    except DecodeError:
        return None
    resource_groups, scope_groups, name = NAMES[signal]
    return [
        record
        for group in getattr(message, resource_groups)
        for scope in getattr(group, scope_groups)
        for record in getattr(scope, name)
    ]


def points(metric: bytes) -> int:
    """How many points a metric stands for: one that can't be read, or holds none, for itself."""
    parsed = parse_messages(METRIC, pa.array([metric], pa.binary()))
    held: list[int] = [len(parsed.batch.column(kind).field("data_points").flatten()) for kind in POINTS]
    return max(1, sum(held))


def accounted(decoded: Decoded) -> int:
    """What decoding says of a message, in records."""
    rows: int = decoded.batch.num_rows
    return rows + len(decoded.rejected) + decoded.pointless_metrics


def check(signal: Signal, wire: bytes) -> Counter[str]:
    """Decode, account for every record, and read what was refused again; the reasons."""
    decoded = decode(signal, [wire], INTAKE)
    reasons = Counter(refused.reason for refused in decoded.rejected)
    found = records(signal, wire)
    if found is None:
        return reasons
    assert "malformed_message" not in reasons
    if signal is not Signal.METRICS:
        assert accounted(decoded) == len(found)
    elif "malformed_context" not in reasons and "malformed_record" not in reasons:
        assert accounted(decoded) == sum(map(points, found))
    else:  # a metric that is refused as a whole counts once, however many points it has
        assert len(found) <= accounted(decoded) <= sum(map(points, found))
    for refused in decoded.rejected:
        again = decode(signal, [refused.payload], INTAKE)
        assert (again.batch.num_rows, [bad.reason for bad in again.rejected]) == (0, [refused.reason])
    return reasons


@each_signal
def test_an_undamaged_message_is_accepted(signal: Signal) -> None:
    """Else the other tests would prove nothing."""
    assert not check(signal, WHOLE[signal])
    assert decode(signal, [WHOLE[signal]], INTAKE).batch.num_rows > 5


@pytest.mark.slow
@each_signal
def test_damage_costs_what_it_hits(signal: Signal) -> None:
    """Flipped bits, cuts and insertions anywhere: each record is accounted for, and every kind of refusal is met."""
    seeded = random.Random(f"damage {signal}")
    reasons: Counter[str] = Counter()
    for _ in range(ROUNDS):
        reasons += check(signal, damaged(seeded, WHOLE[signal]))
    assert {"malformed_message", "malformed_record", "malformed_context"} <= set(reasons)


@pytest.mark.slow
@each_signal
def test_another_signal_is_no_error(signal: Signal) -> None:
    """Messages that came to the wrong door, whole and damaged."""
    seeded = random.Random(f"swapped {signal}")
    for other in set(Signal) - {signal}:
        check(signal, WHOLE[other])
        for _ in range(ROUNDS // 8):
            check(signal, damaged(seeded, WHOLE[other]))


@pytest.mark.slow
@each_signal
def test_neighbours_of_damage_are_kept(signal: Signal) -> None:
    """Messages that are decoded together with damaged ones give the rows that they give alone."""
    seeded = random.Random(f"neighbours {signal}")
    alone = decode(signal, [WHOLE[signal]], INTAKE).batch.num_rows
    for _ in range(ROUNDS // 8):
        batch = [damaged(seeded, WHOLE[signal]), WHOLE[signal], damaged(seeded, WHOLE[signal])]
        apart = [decode(signal, [wire], INTAKE) for wire in batch]
        together = decode(signal, batch, INTAKE)
        assert together.batch.num_rows == sum(one.batch.num_rows for one in apart) >= alone
        assert Counter((bad.reason, bad.message) for bad in together.rejected) == Counter(
            (bad.reason, place) for place, one in enumerate(apart) for bad in one.rejected
        )
