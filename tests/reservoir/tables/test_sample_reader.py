"""Estimates from a sample of the lake beside the truth, which SQL tells from the full table."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError
from neve.reservoir.config import LakeSampling
from neve.reservoir.estimate.estimators import Question, estimate
from neve.reservoir.estimate.sample import Sample
from neve.reservoir.otap.sample_reader import SampleRequest
from neve.reservoir.tables.sample_reader import read_table_sample
from tests.reservoir.tables.records import START, put, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake
    from neve.reservoir.tables.job import Sampler

CONFIG = LakeSampling(k=60, window_seconds=600)


def test_estimates_hold_the_truth(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """By the groups that were sampled and by others, of counts and of a value; organizations are told apart."""
    rows = [
        record(number, seconds=number / 3, weight=str(1 + number % 4), operation_name=f"op-{number % 2}", owner=owner)
        | {"duration_ms": float(10 + number % 40)}
        for owner in ("acme", "other")
        for number in range(2400)
    ]
    put(spark_lake, rows, "one", "spans")
    sampler(CONFIG, "spans").run()
    weight = "CAST(attributes['sampling.adjusted_count'] AS DOUBLE)"
    name = spark_lake.spark_name("spans")
    told = spark_lake.spark.sql(
        f"SELECT service_name, operation_name, sum({weight}) AS total, sum({weight} * duration_ms) AS value "
        f"FROM {name} WHERE organization_id = 'acme' GROUP BY ALL"
    ).collect()

    asked = SampleRequest(of="duration")
    found = estimate(Sample.of(read_table_sample(spark_lake, "spans_sample", asked, "acme")), Question("value"))
    assert (found.windows, found.items) == (2, 2 * 3 * 60)
    for line in found.groups:
        mine = [row for row in told if row.service_name == line.group]
        assert line.estimates["total"].covers(sum(row.total for row in mine))
        assert line.estimates["sum"].covers(sum(row.value for row in mine))
    across = estimate(
        Sample.of(read_table_sample(spark_lake, "spans_sample", SampleRequest(by="operation_name"), "acme"))
    )
    for line in across.groups:
        assert line.estimates["total"].covers(sum(row.total for row in told if row.operation_name == line.group))

    both = estimate(Sample.of(read_table_sample(spark_lake, "spans_sample", SampleRequest())))
    assert {line.group for line in both.groups} == {
        f"{owner} / service-{number}" for owner in ("acme", "other") for number in range(3)
    }
    assert both.overall.estimates["total"].covers(2 * sum(row.total for row in told))
    late = SampleRequest(
        by="attributes['n']", since=START + timedelta(seconds=600), until=START + timedelta(seconds=1200)
    )
    assert Sample.of(read_table_sample(spark_lake, "spans_sample", late, "acme")).items == 180
    with pytest.raises(ConfigError, match="operation_name is string"):
        read_table_sample(spark_lake, "spans_sample", SampleRequest(of="operation_name"))
