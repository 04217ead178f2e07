"""The parts of the chaos tests that decide: a check that can't fail would prove nothing."""

import os
import random

import psutil

from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.chaos import session
from tests.chaos.collected import collected_keys
from tests.chaos.exports import Door, plan_exports
from tests.chaos.kills import Victim, plan_kills
from tests.chaos.messages import message_of
from tests.chaos.verdict import judge
from tests.telemetry import NOW, decoded


def test_a_table_that_holds_everything_once_is_good() -> None:
    """In any order."""
    verdict = judge("spans", range(3), [2, 0, 1], "abc")
    assert verdict.good
    assert str(verdict) == "spans: 3 rows, 3 expected"


def test_a_loss_a_double_and_a_stranger_are_found_and_named() -> None:
    """Also where the number of rows is right."""
    verdict = judge("logs", range(4), [0, 1, 1, 7], "abcd")
    assert not verdict.good
    assert (verdict.missing, verdict.doubled, verdict.unknown) == ((2, 3), (1,), (7,))
    assert "2 missing (2, 3); 1 there more than once (1); 1 never acknowledged (7)" in str(verdict)


def test_a_repeated_record_id_is_found() -> None:
    """Although the records look different."""
    verdict = judge("logs", range(2), [0, 1], "aa")
    assert not verdict.good
    assert "1 record ids repeated" in str(verdict)


def test_a_plan_repeats_with_its_seed_and_covers_every_number_once() -> None:
    """Over every door, packed and not."""
    exports = plan_exports(5_000, random.Random(1))
    assert exports == plan_exports(5_000, random.Random(1))
    assert exports != plan_exports(5_000, random.Random(2))
    for signal in Signal:
        numbers = [number for export in exports if export.signal is signal for number in export.numbers]
        assert sorted(numbers) == list(range(5_000))
    assert {(export.door, export.gzip) for export in exports} == {(door, gzip) for door in Door for gzip in (0, 1)}


def test_kills_are_as_many_as_asked_for() -> None:
    """Of each victim, in an order that the seed decides."""
    counts = {Victim.RECEIVER: 3, Victim.STREAM: 2, Victim.DRIVER: 1}
    kills = plan_kills(counts, random.Random(5))
    assert kills == plan_kills(counts, random.Random(5))
    assert sorted(kill.victim for kill in kills) == sorted([*["receiver"] * 3, *["stream"] * 2, "Spark driver"])


def test_every_record_of_an_export_is_valid_and_different() -> None:
    """Neve takes them all, and no two have one id."""
    for export in plan_exports(1_000, random.Random(3)):
        found = decoded(export.signal, message_of(export, NOW).SerializeToString())
        assert not found.rejected
        assert len(set(found.batch.column("record_id").to_pylist())) == len(export.numbers)


def test_every_record_that_a_collector_wrote_down_has_a_key_of_its_own() -> None:
    """Spans, logs and points, as OTLP JSON says them."""
    for export in plan_exports(1_000, random.Random(4)):
        keys = collected_keys(export.signal, [to_json(export.signal, message_of(export, NOW).SerializeToString())])
        assert len(set(keys)) == len(keys) == len(export.numbers)


def test_whoever_became_a_child_is_asked_for_its_end() -> None:
    """Else it would be a member of its session for ever, and its service would never be gone."""
    orphan = os.posix_spawn("/bin/true", ["true"], {})
    session.reap([orphan], but=orphan)
    assert psutil.pid_exists(orphan)
    while psutil.pid_exists(orphan):
        session.reap([orphan, os.getpid()], but=0)
