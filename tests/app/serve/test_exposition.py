"""Metrics of several processes as one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from neve.app.serve.group_monitor import merge_metrics

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

values = st.floats(-1e6, 1e6)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def counted(number: float, word: str) -> str:
    """What a process with one metric of each kind says."""
    registry = CollectorRegistry()
    Counter("neve_jobs", "jobs that\nended", ["task"], registry=registry).labels(word).inc(abs(number))
    Gauge("neve_lag_seconds", "how far behind", registry=registry).set(number)
    Histogram("neve_took_seconds", "how long", ["task"], buckets=(1, 5), registry=registry).labels(word).observe(number)
    return generate_latest(registry).decode()


def samples(text: str) -> list[Sample]:
    """Every sample of a text."""
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(["receiver", "api", "tend"]), st.tuples(values, words), max_size=3))
def test_every_sample_is_there_once_and_says_of_which_process(told: dict[str, tuple[float, str]]) -> None:
    """With its value and its labels; each family has one head."""
    texts = {process: counted(number, word) for process, (number, word) in told.items()}
    merged = merge_metrics(texts).decode()
    expected = [
        (sample.name, sorted({**sample.labels, "process": process}.items()), sample.value)
        for process, text in texts.items()
        for sample in samples(text)
    ]
    found = [(sample.name, sorted(sample.labels.items()), sample.value) for sample in samples(merged)]
    assert sorted(found) == sorted(expected)
    heads = [line for line in merged.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def test_families_of_our_own_come_first() -> None:
    """Samples of others that have the same name are added to them."""
    up = GaugeMetricFamily("neve_serve_up", "1 if a process runs", labels=["process"])
    up.add_metric(["api"], 1)
    other = "# HELP neve_serve_up x\n# TYPE neve_serve_up gauge\nneve_serve_up 0\n"
    assert merge_metrics({"tend": other}, [up]).decode() == (
        "# HELP neve_serve_up 1 if a process runs\n# TYPE neve_serve_up gauge\n"
        'neve_serve_up{process="api"} 1.0\nneve_serve_up{process="tend"} 0.0\n'
    )


def test_a_process_that_says_nothing_adds_nothing() -> None:
    """Its name alone makes no family."""
    assert merge_metrics({"api": ""}) == b""
