"""Catalog of Neve's Prometheus metrics, read from the calls that declare them.

The source is parsed, not imported: some metrics are registered only while a server runs. The page of metrics and the
checks of dashboards and rules use it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE = Path(__file__).parents[1] / "src" / "neve"
KINDS = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}
FAMILIES = {f"{name}MetricFamily": kind for name, kind in KINDS.items()}
RECEIVER_PREFIX = "neve_receiver_"
RECEIVER_KINDS = {"_counter": "counter", "gauge": "gauge"}  # methods of ReceiverMetrics, which add the prefix
HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")
PREFIX = "{prefix}"  # in names that several jobs share
Constants = dict[str, ast.expr]


@dataclass(frozen=True)
class DeclaredMetric:
    """A metric with the name that Prometheus stores, without the suffixes of histograms."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    package: str

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names of its time series."""
        return (
            tuple(f"{self.name}{suffix}" for suffix in HISTOGRAM_SUFFIXES) if self.kind == "histogram" else (self.name,)
        )


@cache
def read_catalog(source: Path = SOURCE) -> tuple[DeclaredMetric, ...]:
    """Return all metrics of a source tree by name."""
    trees = [(path, ast.parse(text)) for path in sorted(source.rglob("*.py")) if _may_declare(text := path.read_text())]
    found = list(chain.from_iterable(_read_file(path, tree) for path, tree in trees))
    prefixes = {pair for _path, tree in trees for node in ast.walk(tree) if (pair := _read_prefix(node))}
    shared = [_fill_in(one, *pair) for one in found if one.name.startswith(PREFIX) for pair in prefixes]
    return tuple(sorted([*shared, *(one for one in found if "{" not in one.name)], key=lambda metric: metric.name))


def _may_declare(text: str) -> bool:
    return any(word in text for word in ("prometheus_client", ".gauge(", "Metrics.create("))


def _read_prefix(node: ast.AST) -> tuple[str, str] | None:
    """Return the arguments of a call that registers the metrics of one kind of job."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "create":
        match node.args:
            case [ast.Constant(value=str(prefix)), ast.Constant(value=str(things))]:
                return prefix, things
    return None


def _fill_in(metric: DeclaredMetric, prefix: str, things: str) -> DeclaredMetric:
    name = metric.name.replace(PREFIX, prefix)
    return replace(metric, name=name, help=metric.help.replace("{things}", things), package=prefix.rpartition("_")[2])


def series_labels(catalog: tuple[DeclaredMetric, ...]) -> dict[str, frozenset[str]]:
    """Return the labels of each time series."""
    return {
        name: frozenset(metric.labels) | ({"le"} if name.endswith("_bucket") else frozenset())
        for metric in catalog
        for name in metric.series
    }


def _read_file(path: Path, tree: ast.Module) -> Iterator[DeclaredMetric]:
    constants: Constants = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    package = path.relative_to(SOURCE).parts[0] if path.is_relative_to(SOURCE) else path.stem
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (metric := _read_call(node, constants, package)):
            yield metric


def _read_call(call: ast.Call, constants: Mapping[str, ast.expr], package: str) -> DeclaredMetric | None:
    function = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    kind = KINDS.get(function) or FAMILIES.get(function) or RECEIVER_KINDS.get(function)
    texts = [_texts(argument, constants) for argument in call.args]
    if kind is None or len(texts) < 2 or len(texts[0]) != 1 or not texts[1]:
        return None
    name, described = texts[0][0], texts[1][0]
    if function == "_counter":
        labels = tuple(chain.from_iterable(texts[2:]))
    else:
        given = [_texts(word.value, constants) for word in call.keywords if word.arg in {"labels", "labelnames"}]
        labels = given[0] if given else texts[2] if len(texts) > 2 else ()
    if function in RECEIVER_KINDS:
        name = RECEIVER_PREFIX + name
    return DeclaredMetric(_stored_name(name, kind), kind, described, labels, package)


def _texts(node: ast.expr, constants: Mapping[str, ast.expr]) -> tuple[str, ...]:
    """Return the texts of a literal, of a list of literals, or of a constant of the module."""
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, str) else ()
    if isinstance(node, ast.Name):
        return _texts(constants[node.id], constants) if node.id in constants else ()
    if isinstance(node, ast.JoinedStr):
        return ("".join(_template(one) for one in node.values),)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(chain.from_iterable(_texts(one, constants) for one in node.elts))
    return ()


def _template(node: ast.expr) -> str:
    """Return a piece of a formatted text, a variable in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return f"{{{ast.unparse(node.value)}}}" if isinstance(node, ast.FormattedValue) else ""


def _stored_name(name: str, kind: str) -> str:
    """Return the name with the suffix that the client adds to counters.

    >>> _stored_name("neve_query_rows", "counter"), _stored_name("neve_query_limited_total", "counter")
    ('neve_query_rows_total', 'neve_query_limited_total')
    """
    return f"{name.removesuffix('_total')}_total" if kind == "counter" else name
