"""The series `target_info`: one for each resource, with its attributes as labels and the value 1.

Prometheus' OTLP receiver writes it so that queries can join attributes of a resource to series of the same job and
instance. Here it is made from the points when it is asked for, with a sample at each time of a point of its resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.promql.labels import Labels, match_sets
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.otel_names import base_labels
from neve.promql.storage.points import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from neve.lexical.matchers import Matcher

__all__ = ["HELP", "NAME", "SAMPLES", "is_chosen", "list_labels", "read_columns"]

NAME = "target_info"
HELP = "Target metadata"
SAMPLES = (
    "SELECT resource_attrs, list(time_unix_nano) AS points "
    "FROM (SELECT DISTINCT resource_attrs, time_unix_nano FROM metrics) AS seen GROUP BY resource_attrs"
)
_IDENTITY = frozenset({"service.name", "service.namespace", "service.instance.id"})
_NANOS = 1_000_000


def is_chosen(names: Sequence[Matcher], check: Callable[[], None]) -> bool:
    """Return whether the matchers of a name choose `target_info`."""
    return match_sets([((METRIC_NAME, NAME),)], names, check)[0]


def _make_labels(resource: Mapping[str, str]) -> Labels | None:
    """Return the labels of a resource, or `None` if it has no identity, or nothing beside it."""
    others = {key: value for key, value in resource.items() if key not in _IDENTITY}
    identity = {key: value for key, value in resource.items() if key in _IDENTITY}
    owners = dict(base_labels({}, identity))
    known = {name: owners[name] for name in ("job", "instance") if name in owners}
    if not others or not known:
        return None
    labels: dict[str, str] = dict(base_labels({}, others)) | known | {METRIC_NAME: NAME}
    return tuple(sorted(labels.items()))


def _match(
    resources: Sequence[Mapping[str, str]], matchers: Sequence[Matcher], check: Callable[[], None]
) -> list[Labels | None]:
    made = [_make_labels(one) for one in resources]
    matched = match_sets([one or () for one in made], matchers, check)
    return [labels if is_match else None for labels, is_match in zip(made, matched, strict=True)]


def list_labels(table: pa.Table, matchers: Sequence[Matcher], check: Callable[[], None]) -> Iterator[Labels]:
    """Yield the label sets that match, from a table of resources."""
    resources = [dict(pairs or ()) for pairs in table.column("resource_attrs").to_pylist()]
    yield from dict.fromkeys(labels for labels in _match(resources, matchers, check) if labels is not None)


def read_columns(table: pa.Table, matchers: Sequence[Matcher], check: Callable[[], None]) -> Iterator[Column]:
    """Yield the series that match, from the rows of `SAMPLES`."""
    resources = [dict(pairs or ()) for pairs in table.column("resource_attrs").to_pylist()]
    points = table.column("points")
    for index, labels in enumerate(_match(resources, matchers, check)):
        if labels is not None:
            check()
            times = np.unique(points[index].values.to_numpy() // _NANOS)
            yield Column(labels, times, np.ones(len(times)), np.zeros(len(times), np.int64))
