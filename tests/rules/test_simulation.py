"""Replays of rules: the same as one evaluation after the other, only with fewer queries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from neve.lexical.matchers import Matcher
from neve.promql.engine import Engine
from neve.promql.evaluator import Options
from neve.promql.labels import make_labels
from neve.promql.series import MemorySource, SeriesSet
from neve.rules import simulation
from neve.rules.evaluation import Evaluation, EvaluationOptions, RuleState
from neve.rules.instant_vector import query_vector
from neve.rules.overlay_source import OverlaySource
from neve.rules.rule_file import Group, parse_rules
from neve.rules.simulation import RuleSimulation, simulate
from tests.cli.runner import run
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME, OTHER, settings_of

MINUTE = 60_000
OPTIONS = EvaluationOptions(MINUTE)


class CountingSource(MemorySource):
    """Series in memory that count their queries."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Count and return the series that match."""
        self.queries += 1
        return super().select(matchers, start_ms, end_ms)


def make_source(**series: Sequence[float | None]) -> CountingSource:
    """Return series with one value a minute, each with a label n."""
    source = CountingSource()
    for name, values in series.items():
        labels = make_labels({"__name__": name.rstrip("_0123456789"), "n": name})
        source.add(labels, [(i * MINUTE, value, 0) for i, value in enumerate(values) if value is not None])
    return source


def groups_of(*rules: dict[str, Any], **keys: Any) -> tuple[Group, ...]:
    """Return one group with these rules."""
    file = parse_rules(yaml.safe_dump({"groups": [{"name": "g", "rules": list(rules), **keys}]}), "r.yml")
    assert not file.errors, file.errors
    return file.groups


def replay(source: MemorySource, minutes: int, *rules: dict[str, Any], **keys: Any) -> tuple[RuleSimulation, ...]:
    """Return the replay of rules from 0 on."""
    return simulate(groups_of(*rules, **keys), source, 0, minutes * MINUTE, OPTIONS).rules


def test_periods() -> None:
    """An alert has a period for each time in which it was active, with the moments of its states and its peak."""
    source = make_source(x=[0, 2, 3, 4, 0, 2, 0, 2, 5])
    (found,) = replay(source, 8, {"alert": "A", "expr": "x > 1", "for": "2m"})
    times = [(one.active_at_ms, one.fired_at_ms, one.ended_at_ms, one.peak) for one in found.periods]
    assert times == [
        (1 * MINUTE, 3 * MINUTE, 4 * MINUTE, 4.0),
        (5 * MINUTE, None, 6 * MINUTE, 2.0),
        (7 * MINUTE, None, None, 5.0),
    ]
    # Sent when it fires and when it is resolved. The next pending alert replaces the resolved one.
    assert (found.steps, found.firing_count, found.notifications, found.failures) == (9, 1, 2, 0)


def test_one_query_for_all_steps() -> None:
    """A rule needs one query, however many steps there are."""
    source = make_source(x=[float(i % 7) for i in range(200)])
    replay(source, 199, {"alert": "A", "expr": "x > 3"})
    assert source.queries == 1


def test_results_of_earlier_rules() -> None:
    """A rule sees the results of those before it, and is marked if it reads those of itself or later ones."""
    recording = {"record": "r", "expr": "x * 2"}
    alerting = {"alert": "A", "expr": "r > 5"}
    first, second = replay(make_source(x=[1, 2, 3, 4]), 3, recording, alerting)
    assert (first.samples, first.note) == (4, "")
    assert [one.active_at_ms for one in second.periods] == [2 * MINUTE]
    early, _ = replay(make_source(x=[1, 2, 3, 4]), 3, alerting, recording)
    assert (early.firing_count, "reads r, which this or a later rule records" in early.note) == (0, True)


def test_failing_steps() -> None:
    """A step that fails resolves nothing, and the others are evaluated."""
    source = make_source(x1=[1, 1, 1, 1], x2=[None, None, 1, None])
    expression = 'label_replace(x, "n", "", "", "") > 0'
    (found,) = replay(source, 3, {"alert": "A", "expr": expression})
    assert found.failures == 2  # a sample counts for 5 minutes
    assert "same labelset" in found.error
    assert [(one.active_at_ms, one.ended_at_ms) for one in found.periods] == [(0, None)]


def test_expressions_of_the_range() -> None:
    """`start()` and `end()` are the time of the evaluation, not the ends of the replay."""
    source = make_source(x=[1, 2, 3, 4])
    (found,) = replay(source, 3, {"alert": "A", "expr": "x @ end() > 2"})
    assert [one.active_at_ms for one in found.periods] == [2 * MINUTE]


def test_query_offset() -> None:
    """The queries of a group with an offset see the data of so long ago."""
    (found,) = replay(make_source(x=[1, 2, 3, 4]), 3, {"alert": "A", "expr": "x > 1"}, query_offset="1m")
    assert [one.active_at_ms for one in found.periods] == [2 * MINUTE]


def test_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps are queried in several parts, with the same result."""
    rule = {"alert": "A", "expr": "sum_over_time(x[3m]) > 5", "for": "1m", "keep_firing_for": "2m"}
    values = [float(i * 7 % 5) for i in range(50)]
    whole = replay(make_source(x=values), 49, rule)
    monkeypatch.setattr(simulation, "FIRST_STEPS", 7)
    monkeypatch.setattr(simulation, "MAX_STEPS", 7)
    assert replay(make_source(x=values), 49, rule) == whole
    assert whole[0].firing_count


VALUES = st.lists(st.one_of(st.none(), st.integers(0, 3).map(float)), min_size=1, max_size=25)
EXPRESSIONS = ("x > 1", "sum(x) > 2", "rate(x[3m]) > 0", "max_over_time(x[2m:1m]) > 2", "x offset 2m > 1", "absent(x)")


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from(EXPRESSIONS), st.integers(0, 3), st.integers(0, 3))
def test_same_as_step_by_step(series: list[list[float | None]], expression: str, hold: int, keep: int) -> None:
    """A replay has the alerts and notifications of one instant query after the other."""
    source = make_source(**{f"x{index}": values for index, values in enumerate(series)})
    rule = {"alert": "A", "expr": expression, "for": f"{hold}m", "keep_firing_for": f"{keep}m"}
    minutes = max(len(values) for values in series)
    (found,) = replay(source, minutes, rule)
    (group,) = groups_of(rule)
    engine, state, sent, begun = Engine(source), RuleState(), 0, set()
    for time_ms in range(0, minutes * MINUTE + 1, MINUTE):
        evaluation = Evaluation(group, time_ms, lambda text, at: query_vector(engine, text, at), OPTIONS)
        result = evaluation.evaluate(group.rules[0], state)
        state = result.state
        sent += len(result.notifications)
        begun |= {(alert.labels, alert.active_at_ms) for alert in state.alerts.values() if alert.is_active}
    assert found.notifications == sent
    assert {(one.labels, one.active_at_ms) for one in found.periods} == begun


RECORDINGS = ("x * 2", "sum by (n) (x)", "sum(x)", "x > 1", "rate(x[3m])", 'label_replace(x, "n", "", "", "")')
READERS = ("r > 2", "sum_over_time(r[4m]) > 3", "count_over_time(r[3m]) > 1", "absent(r)", "r offset 2m > 1")


@given(
    st.lists(VALUES, min_size=1, max_size=3),
    st.sampled_from(RECORDINGS),
    st.sampled_from(READERS),
    st.integers(0, 2),
    st.integers(1, 6),
)
def test_chains_are_the_same_in_parts(
    series: list[list[float | None]], recording: str, reader: str, limit: int, steps: int
) -> None:
    """Rules that read recorded series see the same samples and ends as step by step, however long the parts are."""
    source = make_source(**{f"x{index}": values for index, values in enumerate(series)})
    rules = ({"record": "r", "expr": recording}, {"alert": "A", "expr": reader, "for": "1m"})
    minutes = max(len(values) for values in series)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation, "FIRST_STEPS", steps)
        patched.setattr(simulation, "MAX_STEPS", steps)
        recorded, alerted = replay(source, minutes, *rules, limit=limit)
    (group,) = groups_of(*rules, limit=limit)
    results, states = MemorySource(), [RuleState(), RuleState()]
    engine = Engine(OverlaySource(source, results))
    samples, failures, begun = [0, 0], [0, 0], set()
    for time_ms in range(0, minutes * MINUTE + 1, MINUTE):
        evaluation = Evaluation(group, time_ms, lambda text, at: query_vector(engine, text, at), OPTIONS)
        for place, rule in enumerate(group.rules):
            result = evaluation.evaluate(rule, states[place])
            states[place] = result.state
            samples[place] += len(result.samples)
            failures[place] += bool(result.state.error)
            for one in result.samples:
                results.add(one.labels, [(one.time_ms, one.value, 0)])
        begun |= {(alert.labels, alert.active_at_ms) for alert in states[1].alerts.values() if alert.is_active}
    assert [recorded.samples, alerted.samples] == samples
    assert [recorded.failures, alerted.failures] == failures
    assert {(one.labels, one.active_at_ms) for one in alerted.periods} == begun


def test_parts_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with too many samples is split, and the next parts are shorter."""
    values = [float(i % 7) for i in range(400)]
    rule = {"alert": "A", "expr": "sum_over_time(x[3m]) > 9"}
    whole = replay(make_source(x=values), 399, rule)
    source = make_source(x=values)
    options = Options(max_samples=300)
    monkeypatch.setattr(simulation, "Engine", lambda given: Engine(given, options))
    monkeypatch.setattr(simulation, "PART_SAMPLES", 100)
    monkeypatch.setattr(simulation, "FIRST_STEPS", 200)
    assert replay(source, 399, rule) == whole
    assert 4 < source.queries < 20


def test_rules_share_samples() -> None:
    """Rules with the same selector read it once in a part."""
    source = make_source(x=[float(i % 7) for i in range(100)])
    rules = ({"alert": "A", "expr": "x > 3"}, {"alert": "B", "expr": "x > 5"}, {"record": "r", "expr": "x"})
    replay(source, 99, *rules)
    assert source.queries == 1


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a lake with metrics."""
    folder = tmp_path_factory.mktemp("simulate")
    make_metric_lake(folder)
    path = folder / "neve.yaml"
    path.write_text(yaml.safe_dump({**settings_of(folder), "organization": ACME}))
    rules = {"alert": "Memory", "expr": "memory_bytes > 5", "for": "2m", "labels": {"severity": "page"}}
    secret = {"alert": "Secret", "expr": "secret > 0"}
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [rules, secret]}]}))
    (folder / "bad.yml").write_text("groups: 3")
    return str(path)


SINCE, UNTIL = "2025-10-09T08:33:00Z", "2025-10-09T08:53:00Z"


@pytest.mark.slow
def test_command(config: str) -> None:
    """`neve rules simulate` replays a file over the metrics of one organization."""
    assert START_MS + (COUNT - 1) * GAP_MS == 1_759_999_980_000  # UNTIL
    rules = str(Path(config).parent / "rules.yml")
    command = ("-c", config, "rules", "simulate", rules, "--since", SINCE, "--until", UNTIL)
    ended = run(*command, "--json")
    assert ended.code == 0, ended.errors
    memory, secret = ended.json["rules"]
    (period,) = memory["periods"]
    assert (period["active_at"], period["fired_at"], period["ended_at"], period["peak"]) == (
        "2025-10-09T08:39:00Z",
        "2025-10-09T08:41:00Z",
        None,
        20.0,
    )
    assert period["labels"]["severity"] == "page"
    assert secret["periods"] == []  # another organization has this metric
    other = run(*command, "--json", "--org", OTHER)
    assert [len(one["periods"]) for one in other.json["rules"]] == [0, 1]
    text = run(*command)
    assert "still active" in text.text
    assert "Memory{" in text.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "options", "message"),
    [("bad.yml", [], "expected a list"), ("rules.yml", ["--interval", "soon"], "not a duration of at least 1s")],
)
def test_wrong_options(config: str, file: str, options: list[str], message: str) -> None:
    """A wrong file or option is an error that names it."""
    ended = run("-c", config, "rules", "simulate", str(Path(config).parent / file), *options)
    assert ended.code != 0
    assert message in ended.errors
