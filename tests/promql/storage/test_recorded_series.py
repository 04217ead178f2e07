"""Series of the table `recorded`, read together with those of `metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.app.query.promql import open_series
from neve.promql.engine import Engine
from neve.promql.labels import get
from neve.promql.language.parser import parse
from neve.promql.language.syntax import VectorSelector
from tests.query.lakes import ACME, OTHER
from tests.rules.running.desk import MINUTE, START_MS, Desk, write_rules

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

RULES = """
groups:
  - name: shop
    rules:
      - {record: 'load:max', expr: 'max by (pod) (load)'}
      - {record: load, expr: 'vector(3)', labels: {origin: rule}}
      - {alert: Busy, expr: 'load:max > 5'}
"""


@pytest.fixture
def desk(lake: Lake, tmp_path: Path) -> Desk:
    """Two evaluations: a series that ends, and an alert that ends with it."""
    found = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, RULES)}})
    found.put("load", 9.0, pod="a")
    found.put("load", 9.0, pod="secret", org=OTHER)
    found.run()
    found.put("load", 1.0, START_MS + MINUTE, pod="a")
    found.run(START_MS + MINUTE)
    return found


def ask(desk: Desk, text: str, at_ms: int, org: str = ACME) -> list[tuple[str, float]]:
    """Return pod and value of each series."""
    result = Engine(open_series(desk.service, org)).query(text, at_ms)
    return sorted((get(one.labels, "pod"), one.floats[0][1]) for one in result.series)


def test_names(desk: Desk) -> None:
    """Equal, regular and missing names choose recorded series, beside those of metrics with the same name."""
    assert ask(desk, "load:max", START_MS) == [("a", 9.0)]
    assert ask(desk, '{__name__=~"load:.*"}', START_MS) == [("a", 9.0)]
    assert ask(desk, "load", START_MS) == [("", 3.0), ("a", 9.0)]
    assert ask(desk, 'load{origin="rule"}', START_MS) == [("", 3.0)]
    assert ask(desk, 'load:max{pod="b"}', START_MS) == []


def test_series_end(desk: Desk) -> None:
    """A null value is a stale mark: the series of an alert ends with it."""
    assert ask(desk, "ALERTS", START_MS) == [("a", 1.0)]
    assert ask(desk, "ALERTS", START_MS + MINUTE) == []
    assert ask(desk, "ALERTS_FOR_STATE", START_MS) == [("a", START_MS / 1000)]


def test_lists_have_recorded_series(desk: Desk) -> None:
    """Lists of series contain recorded ones."""
    node = parse('{__name__=~".+", pod="a"}')
    assert isinstance(node, VectorSelector)
    found = list(open_series(desk.service, ACME).list_series(node.all_matchers, START_MS, START_MS + MINUTE))
    assert {get(one, "__name__") for one in found} == {"load", "load:max", "ALERTS", "ALERTS_FOR_STATE"}


def test_other_organizations_see_nothing(desk: Desk) -> None:
    """Recorded series belong to one organization."""
    assert ask(desk, '{__name__=~".+"}', START_MS, OTHER) == [("secret", 9.0)]
