"""Metrics of several processes as those of one: each sample says which process it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROCESS = "process"


def merge(texts: Mapping[str, str], own: Iterable[Metric] = ()) -> bytes:
    """What processes have counted, by the name of each, and families of our own: one text with each family once."""
    families: dict[str, Metric] = {family.name: family for family in own}
    for process, text in texts.items():
        for family in text_string_to_metric_families(text):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            merged.samples += [sample._replace(labels={**sample.labels, PROCESS: process}) for sample in family.samples]
    return text_of(families.values())


def text_of(families: Iterable[Metric]) -> bytes:
    """Families in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families
