"""What estimates are made of: kept records with their groups and values, and the full data counted beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from neve.app.reservoir import load_sample, load_truth
from neve.errors import InputError, InvalidWeight
from neve.reservoir.estimate.comparison import Truth, compare
from neve.reservoir.estimate.estimators import Question, estimate
from neve.reservoir.estimate.sample import Sample
from neve.reservoir.otap.sample_reader import SampleRequest
from tests.otap.stars import Span, make_star
from tests.reservoir.otap.contents import numbered

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from neve.lake.lake import Lake
    from tests.otap.stars import Log
    from tests.reservoir.otap.test_job import Sampler

MINUTE = 60


def second(number: int) -> datetime:
    """A moment of 1970's first minutes."""
    return datetime.fromtimestamp(number, UTC)


def logs() -> list[Log]:
    """Two minutes of logs of two services and of none, in two zones, of which every other one stands for 2.5."""
    return [
        replace(
            one, resource={"zone": "ab"[number % 2]}, weight=2.5 if number % 2 else None, severity_number=number % 3
        )
        for number, one in enumerate(numbered(120, ("shop", "cart", None)))
    ]


def weighed(records: list[Log], key: Any) -> dict[Any, float]:
    """What records of each group stand for."""
    found: dict[Any, float] = {}
    for one in records:
        found[key(one)] = found.get(key(one), 0.0) + float(one.weight or 1)
    return found


def told(rows: pa.Table, *columns: str) -> dict[Any, float]:
    """Counts by some columns."""
    keys = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
    pairs = zip(keys, rows.column("count").to_pylist(), strict=True)
    return {key if len(columns) > 1 else key[0]: count for key, count in pairs}


def test_a_sample_and_its_truth(sampler: Sampler, folder_lake: Lake, tmp_path: Path) -> None:
    """By the groups that were sampled, which the ledger tells; of an attribute; by another one; of some windows."""
    lake, records = folder_lake, logs()
    full, sample = str(tmp_path / "in"), str(tmp_path / "out")
    make_star(full, logs=records)
    sampler(k=10, by=("zone",), window_seconds=MINUTE).run()
    rows = load_sample(lake, sample, SampleRequest(of="n"))
    assert rows.num_rows == 40
    assert set(rows.column("group").to_pylist()) == {"a", "b"}
    truth = load_truth(lake, full, sample, SampleRequest(of="n"))
    assert told(truth, "group", "value") == {
        ("ab"[number % 2], float(number)): 2.5 if number % 2 else 1.0 for number in range(120)
    }
    found = compare(estimate(Sample.of(rows), Question("value", (0.5,))), Truth.of(truth))
    assert abs(found.overall["total"].off or 0) < 50
    assert not found.missing
    by_service = load_truth(lake, full, sample, SampleRequest(by="service.name", of="severity_number"))
    assert told(by_service, "group", "value") == weighed(records, lambda one: (one.service, one.severity_number))
    services = load_sample(lake, sample, SampleRequest(by="service.name", of="severity_number"))
    assert set(services.column("by").to_pylist()) == {"shop", "cart", None}
    # Windows that begin before the one moment and end after the other, as a run takes them.
    later = load_sample(lake, sample, SampleRequest(since=second(60), until=second(61)))
    assert set(later.column("window_start").to_pylist()) == {second(60)}
    assert load_sample(lake, sample, SampleRequest(since=second(59), until=second(60))).num_rows == 20
    minute = load_truth(lake, full, sample, SampleRequest(since=second(60), until=second(120)))
    assert told(minute, "group") == weighed(records[60:], lambda one: one.resource["zone"])


def test_a_foreign_sample_and_one_that_passed(sampler: Sampler, folder_lake: Lake, tmp_path: Path) -> None:
    """Without decisions there are counts and times alone, and no groups; the truth has none either."""
    lake, records = folder_lake, logs()
    full = str(tmp_path / "in")
    make_star(full, logs=records)
    sampler().run()
    for sample in (full, str(tmp_path / "out")):
        rows = load_sample(lake, sample, SampleRequest(since=second(10), until=second(40)))
        assert rows.column_names == ["adjusted"]
        assert sum(rows.column("adjusted").to_pylist()) == sum(float(one.weight or 1) for one in records[10:40])
    truth = load_truth(lake, full, full, SampleRequest(since=second(10), until=second(40)))
    assert told(truth, "group") == {None: sum(float(one.weight or 1) for one in records[10:40])}


@pytest.mark.long
def test_durations_of_spans(sampler: Sampler, folder_lake: Lake, tmp_path: Path) -> None:
    """By their short name; one's own counts can be estimated from, and groups of a query need a name."""
    spans = [
        Span(time_ns=n, service="ab"[n % 2], name=f"r{n}", duration_ns=1000 * n, attributes={"n": str(n)})
        for n in range(20)
    ]
    full, sample = str(tmp_path / "in"), str(tmp_path / "out")
    make_star(full, spans=spans)
    query = "SELECT _part_id, id, 4 + id AS adjusted_count FROM spans WHERE id % 4 = 0"
    sampler(signal="spans", query=query).run()
    rows = load_sample(folder_lake, sample, SampleRequest(of="duration"))
    assert sorted(rows.column("value").to_pylist()) == [4000.0 * n for n in range(5)]
    assert Sample.of(rows).adjusted.sum() == sum(4 + 4 * n for n in range(5))
    texts = load_sample(folder_lake, sample, SampleRequest(of="n"))
    assert sorted(texts.column("value").to_pylist()) == [4.0 * n for n in range(5)]
    with pytest.raises(InputError, match=r"was sampled by a query, which do not define groups"):
        load_truth(folder_lake, full, sample, SampleRequest(of="duration"))
    truth = load_truth(folder_lake, full, sample, SampleRequest(by="service.name", of="duration"))
    assert told(truth, "group", "value") == {("ab"[n % 2], 1000.0 * n): 1.0 for n in range(20)}
    with pytest.raises(InputError, match=r"name is string"):
        load_sample(folder_lake, sample, SampleRequest(of="name"))


@pytest.mark.long
def test_a_truth_with_weights_that_cannot_be(folder_lake: Lake, tmp_path: Path) -> None:
    """Is refused by name, too."""
    make_star(tmp_path, logs=[replace(numbered(1)[0], weight="many")])
    with pytest.raises(InvalidWeight, match=r'"id":0\} is many, expected'):
        load_truth(folder_lake, str(tmp_path), str(tmp_path), SampleRequest())
