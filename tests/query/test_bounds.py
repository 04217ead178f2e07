"""Statements that are short to write and would take an engine for ever, or all memory."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import LimitExceeded, QueryError
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.limits import QUEUED_PER_RUNNING, AdmissionGate, Limits
from neve.query.request import Request
from neve.query.service import Ports, QueryService
from neve.query.sql.dialect import MAX_PARTS
from neve.query.sql.identifiers import KNOWN
from neve.query.sql.references import MAX_TABLES
from neve.query.sql.size_limits import REPEATS
from neve.query.sql.statement import parse, write_for_duckdb
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake

CPU_SECONDS = 20  # for what takes well under one; what is refused late would take hours

NESTED: dict[str, Callable[[int], str]] = {
    "arrows": lambda n: "SELECT '{}'" + "->'a'" * n,
    "round_even": lambda n: "SELECT " + "round_even(" * n + "1.5" + ",0)" * n,
    "fmod": lambda n: "SELECT " + "fmod(" * n + "1" + ",2)" * n,
    "nullif": lambda n: "SELECT " + "nullif(" * n + "1" + ",2)" * n,
    "split_part": lambda n: "SELECT " + "split_part(" * n + "'a'" + ",'b',1)" * n,
    "array_pop_back": lambda n: "SELECT " + "array_pop_back(" * n + "[1]" + ")" * n,
    "list_append": lambda n: "SELECT " + "list_append(" * n + "[1]" + ",1)" * n,
    "list_reverse": lambda n: "SELECT " + "list_reverse(" * n + "[1]" + ")" * n,
    "lambdas": lambda n: "SELECT " + "list_transform([1], x -> " * n + "1" + ")" * n,
    "lists of lambdas": lambda n: "SELECT " + "list_transform(" * n + "[1]" + ", x -> x)" * n,
    "between": lambda n: "SELECT " + "(" * n + "1" + " BETWEEN 1 AND 2)::INT" * n,
    "case": lambda n: "SELECT " + "CASE " * n + "1" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * n,
    "names": lambda n: "SELECT 1 AS a0" + "".join(f", a{i} + a{i} AS a{i + 1}" for i in range(n)),
    "cube": lambda n: f"SELECT count(*) FROM spans GROUP BY CUBE({', '.join(f'flags + {i}' for i in range(n))})",
    "range": lambda n: "SELECT " + "len(range(" * n + "flags" + "))" * n + " FROM spans",
    "has_term": lambda n: "SELECT " + "has_term(CAST(" * n + "'a'" + " AS VARCHAR), 'a')" * n,
}
LARGE = (
    "repeat('x', 3000000000)",
    "repeat('x', 3000 * 1000 * 1000)",
    "repeat('x', 3000000000 + flags)",
    "repeat('', 3000000000 + flags)",
    "repeat(repeat('x', 90000), 90000)",
    "repeat([repeat('x', 90000)], 90000)",
    "repeat('x', (random() * 1000000000)::BIGINT)",
    "range(400000000)",
    "range(400000000 + flags)",
    "range(flags, -400000000, -1)",
    "generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2026-01-01', INTERVAL 1 SECOND)",
    "lpad('x', 2000000000, 'y')",
    "rpad('x', 2000000000 + flags, 'y')",
    "format('{:2000000000}', 1)",
    "format('{:{}}', 1, 2000000000)",
    "format(repeat('{}', 100), 1)",
    "printf('%2000000000d', 1)",
    "printf('%*d', 2000000000, 1)",
    "list_resize([1], 2000000000)",
    "list_resize([1], 2000000000 + flags)",
    "list_resize(['a'], 90000, repeat('x', 90000))",
    "damerau_levenshtein(repeat('a', 25000), repeat('b', 25000))",
    "levenshtein(repeat('a', 90000), repeat('b', 90000))",
    "replace(repeat('x', 90000), 'x', repeat('y', 90000))",
    "array_to_string(range(90000), repeat('y', 90000))",
    f"array_to_string(range(90000), '{'y' * 1001}')",
)
SMALL = {
    "repeat('ab', 1 + 1)": "abab",
    "repeat('ab', -1)": "",
    "repeat([1], 1 + 1)": [1, 1],
    "repeat('a'::BLOB, 1 + 1)": b"aa",
    "lpad('x', 2 + 1, '.')": "..x",
    "list_resize([1], 1 + 1, 7)": [1, 7],
    "list_resize([1], 1 + 1)": [1, None],
    "range(1 + 1)": [0, 1],
    "range(1 + 2, 1, -1)": [3, 2],
    "range(NULL::BIGINT)": None,
    "len(generate_series(DATE '2024-01-01', DATE '2025-01-01', INTERVAL 1 MONTH))": 13,
    "format('{:>4}|{:.2f}', 1, 2.5)": "   1|2.50",
    "levenshtein('a' || 'b', 'abc')": 1,
    "replace('a' || 'b', 'a', 'c' || 'd')": "cdb",
    'from_json(\'{"a": {"b": 1}}\', \'{"a": {"b": "INT"}}\').a.b': 1,
    "json_extract('[{\"a\": 1}, {\"a\": 2}]', '$[*].a')": ["1", "2"],
    "'a_b' LIKE 'a%b'": True,
    "nullif(nullif(1, 2), 3)": 1,
    "array_to_string([1, 2], chr(45))": "1-2",
    """'{"a": {"b": [5]}}'->'a'->'b'->0""": "5",
    "list_transform([1, 2], x -> list_sum(list_transform([x], y -> y + x)))": [2, 4],
}


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """A service of the small lake."""
    config = QueryConfig(
        threads=1, timeout_seconds=3600, cpu_seconds=CPU_SECONDS, memory_limit="500MB", warm_workers=1, spark_bytes=0
    )
    made = QueryService(lake, config, ports=Ports(engine=WorkerPool(lake, config)))
    yield made
    made.close()


def value(service: QueryService, sql: str) -> Any:
    """The first value of an answer."""
    running = service.start(Request(sql, ACME))
    rows = pa.Table.from_batches(running.batches(), running.schema).to_pylist()
    return next(iter(rows[0].values()))


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_what_an_engine_would_write_many_times_is_answered_or_refused_at_once(service: QueryService, name: str) -> None:
    """However deep it is nested; a little of it is answered, and the refusal is no limit of what it took."""
    value(service, NESTED[name](2 if name != "has_term" else 1))
    for depth in (3, 6, 10, 14, 24, 40):
        try:
            value(service, NESTED[name](depth))
        except QueryError as error:
            assert not isinstance(error, LimitExceeded)  # noqa: PT017 - either is right, but for this


@pytest.mark.slow
def test_a_refusal_names_what_is_repeated_and_the_bound() -> None:
    """So that its reader knows what to change."""
    with pytest.raises(QueryError, match=f"more than {MAX_PARTS:,} parts, with the copies that round_even makes"):
        parse(NESTED["round_even"](20), {})
    with pytest.raises(QueryError, match=f"more than {MAX_PARTS:,} parts\\n"):
        parse(f"SELECT 1 IN ({', '.join('1' for _ in range(MAX_PARTS))})", {})


def test_each_macro_that_repeats_an_argument_is_known() -> None:
    """A version of DuckDB that has others makes this fail."""
    asked = "SELECT function_name, parameters, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
    for name, parameters, body in duckdb.sql(asked).fetchall():
        most = max((len(re.findall(rf'\b{re.escape(one)}\b(?!"?\()', body)) for one in parameters), default=0)
        if name in KNOWN and most > 1 and name not in {"map_contains_entry", "map_contains_value"}:  # names of types
            assert name in REPEATS, body


@pytest.mark.parametrize("call", LARGE)
def test_a_single_value_can_not_take_all_memory(service: QueryService, call: str) -> None:
    """Its size is refused before it is made, whether it is written out or not."""
    with pytest.raises(QueryError) as caught:
        value(service, f"SELECT {call} AS x FROM spans")
    assert not isinstance(caught.value, LimitExceeded)
    assert call.partition("(")[0] in str(caught.value) or "repeat" in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT from_json('{}', '" + '{"a":' * 5000 + '"INT"' + "}" * 5000 + "')", "at most 64 levels, got 5,000"),
        ("SELECT json_transform_strict('{}', '" + "[" * 45000 + "')", "at most 64 levels, got 45,000"),
        ("SELECT from_json('{}', message) FROM logs", "from_json takes the type as a literal"),
        (
            "SELECT len(json_extract('" + "[" * 100 + "]" * 100 + "', '$..*..*..*..*..*..*..*..*'))",
            "a path with at most 1 '..', got 8",
        ),
        ("SELECT json_extract('[]', '$[*][*][*][*]')", r"at most 3 '\*', got 4"),
        ("SELECT 'a' ILIKE '" + "%_a" * 30000 + "b'", "may have 100 wildcards, got 60,000"),
    ],
)
def test_what_duckdb_can_not_bind_or_end_is_refused(sql: str, words: str) -> None:
    """Texts that are types, paths or patterns are short to write and take for ever, or crash it."""
    with pytest.raises(QueryError, match=words):
        parse(sql, {"logs": pa.schema([("message", pa.string())])})


@pytest.mark.parametrize("call", SMALL)
def test_what_is_small_is_answered_as_before(service: QueryService, call: str) -> None:
    """Checks change no value."""
    assert value(service, f"SELECT {call} AS x") == SMALL[call]


def test_a_series_of_rows_has_no_bound(service: QueryService) -> None:
    """Rows of FROM come one after the other."""
    assert value(service, "SELECT count(*) FROM range(300000)") == 300_000


def test_parts_that_read_a_table_may_be_written_twice(service: QueryService) -> None:
    """Each copy has its source."""
    assert value(service, "SELECT repeat('x', (SELECT count(*) FROM logs)::BIGINT)") == "xx"
    assert value(service, "SELECT has_term((SELECT max(message) FROM logs), 'second')") is True


def test_the_tables_of_a_statement_are_bounded() -> None:
    """Each is planned apart."""
    schemas = {"spans": pa.schema([("flags", pa.int64())])}
    many = "SELECT 1 FROM spans" + "".join(f", spans s{number}" for number in range(MAX_TABLES - 1))
    sources = dict.fromkeys(range(MAX_TABLES), "(SELECT 1 AS flags)")
    assert duckdb.sql(write_for_duckdb(parse(many, schemas), sources)).fetchall() == [(1,)]
    with pytest.raises(QueryError, match=f"more than {MAX_TABLES} tables"):
        parse(many + ", spans", schemas)


KEY = Limits(concurrency=1)


def enter_elsewhere(gate: AdmissionGate, who: tuple[str, str], limits: Limits) -> threading.Thread:
    """Wait at a gate in a thread, which is there when this returns."""
    before = gate.waiting(who)
    thread = threading.Thread(target=gate.enter, args=(who, limits), daemon=True)
    thread.start()
    while gate.waiting(who) == before and thread.is_alive():
        time.sleep(0.001)
    return thread


def test_a_key_that_waits_enough_is_refused_at_once() -> None:
    """So that its requests do not hold the threads of others; they get in as before."""
    gate, who = AdmissionGate(3, 3600), ("acme", "a")
    gate.enter(who, KEY)
    waiting = [enter_elsewhere(gate, who, KEY) for _ in range(QUEUED_PER_RUNNING)]
    with pytest.raises(
        LimitExceeded, match=f"1 queries of this key run and {QUEUED_PER_RUNNING} wait already"
    ) as caught:
        gate.enter(who, KEY)
    assert caught.value.limit == "concurrency"
    gate.enter(("acme", "b"), KEY)
    for left in reversed(range(QUEUED_PER_RUNNING)):
        gate.leave(who)  # whoever gets in stays
        while gate.waiting(who) > left:
            time.sleep(0.001)
    gate.leave(who)
    for one in waiting:
        one.join()
    assert gate.waiting(who) == 0


def test_many_keys_of_one_organization_hold_no_more_threads_than_one() -> None:
    """Each that waits holds a thread of the server."""
    gate, many = AdmissionGate(2, 3600), Limits(concurrency=4, places=1)
    gate.enter(("hostile", "first"), many)
    for number in range(QUEUED_PER_RUNNING):
        enter_elsewhere(gate, ("hostile", f"key-{number}"), many)
    with pytest.raises(
        LimitExceeded, match=f"1 queries of this organization run and {QUEUED_PER_RUNNING} wait already"
    ):
        gate.enter(("hostile", "another"), many)
    gate.enter(("honest", "k"), many)


def test_who_steps_back_for_another_is_woken_when_that_one_is_in() -> None:
    """Places are free then; nobody else would tell it."""
    gate, all_ = AdmissionGate(8, 3600), Limits()
    for number in range(5):
        gate.enter(("busy", str(number)), all_)
    gate.enter(("calm", "1"), all_)
    busy = enter_elsewhere(gate, ("busy", "late"), all_)  # the last two places are for others
    calm = enter_elsewhere(gate, ("calm", "late"), all_)
    for number in range(3):
        gate.leave(("busy", str(number)))
    busy.join()
    calm.join()


def test_two_organizations_do_not_lock_out_a_third() -> None:
    """Whatever two of them ask for, whoever runs nothing gets a place at once."""
    gate, many = AdmissionGate(8, 0), Limits(places=6)
    entered = 0
    for organization in ("hostile", "greedy") * 8:
        with suppress(LimitExceeded):
            gate.enter((organization, f"key-{entered}"), many)
            entered += 1
    assert entered == 6
    gate.enter(("honest", "k"), many)
    with pytest.raises(LimitExceeded, match="kept for organizations that run none"):
        gate.enter(("hostile", "another"), many)


def test_many_keys_of_one_organization_have_the_places_of_one() -> None:
    """A quota by key is none: keys are easily made."""
    gate, many = AdmissionGate(8, 0), Limits(concurrency=4, places=3)
    for number in range(3):
        gate.enter(("hostile", f"key-{number}"), many)
    with pytest.raises(LimitExceeded, match="3 queries of this organization run already"):
        gate.enter(("hostile", "key-4"), many)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy"), st.booleans()), max_size=60), st.integers(1, 9)
)
def test_the_gate_never_lets_in_more_than_it_has_places_for(steps: list[tuple[str, str, bool]], places: int) -> None:
    """Of all, of an organization and of a key; and one that runs nothing is refused only where all places are taken."""
    gate, limits, inside = AdmissionGate(places, 0), Limits(concurrency=2, places=3), Counter[tuple[str, str]]()
    for organization, key, leaves in steps:
        who = (organization, key)
        if leaves and inside[who]:
            gate.leave(who)
            inside[who] -= 1
            continue
        own = sum(count for (owner, _), count in inside.items() if owner == organization)
        try:
            gate.enter(who, limits)
        except LimitExceeded:
            assert own or inside.total() >= places
            continue
        inside[who] += 1
        assert inside.total() <= places
        assert inside[who] <= 2
        assert own < 3
