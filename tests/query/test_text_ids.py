"""Ids as text: the forms that people paste, the columns that they mean, and the files that they select."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neve.errors import QueryError
from neve.model.tables import SPANS
from neve.query.config import QueryConfig
from neve.query.request import Request
from neve.query.service import QueryService, no_limits
from neve.query.sql.dialect import write
from neve.query.sql.statement import parse
from neve.query.sql.text_ids import parse_id
from tests.query.engines import SCHEMAS, put
from tests.query.lakes import ACME, OTHER, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACE, SPAN = "5b8aa5a2d2c872e8321cf37308d69df2", "051581bf3cb55c13"
BYTES = f"UNHEX('{TRACE}')"
START = datetime(2026, 3, 1, tzinfo=UTC)
TRACES = [bytes([number * 7 % 256, number]) * 8 for number in range(60)]


@pytest.mark.parametrize(
    ("text", "name", "digits"),
    [
        (TRACE, "trace_id", TRACE),
        (TRACE.upper(), "trace_id", TRACE),
        (f" 0x{TRACE}\n", "trace_id", TRACE),
        ("5b8aa5a2-d2c8-72e8-321c-f37308d69df2", "trace_id", TRACE),
        ("{5B8AA5A2-D2C8-72E8-321C-F37308D69DF2}", "record_id", TRACE),
        (f"00-{TRACE}-{SPAN}-01", "trace_id", TRACE),
        (f"00-{TRACE}-{SPAN}-01", "parent_span_id", SPAN),
        (f"{TRACE}/{SPAN}", "trace_id", TRACE),
        (f"{TRACE}/{SPAN};o=1", "span_id", SPAN),
        ("\\x05\\x15\\x81\\xBF\\x3C\\xB5\\x5C\\x13", "span_id", SPAN),
        (SPAN, "trace_id", f"{'0' * 16}{SPAN}"),
        (TRACE[:-1], "trace_id", ""),
        (TRACE, "span_id", ""),
        ("", "trace_id", None),
        ("-", "trace_id", None),
        ("hello", "trace_id", None),
        ("\uff15" * 32, "trace_id", None),
    ],
)
def test_forms_of_ids(text: str, name: str, digits: str | None) -> None:
    """A text means the digits of its id, no id of the right length (empty), or no id at all."""
    assert parse_id(text, name) == digits


@pytest.mark.parametrize(
    "condition",
    [
        f"trace_id = '{TRACE}'",
        f"'{TRACE}' = (trace_id)",
        f"trace_id <> '{TRACE}'",
        f"trace_id IN ('{TRACE}', unhex('00'))",
        f"NOT spans.trace_id IN ('{TRACE}')",
        f"trace_id BETWEEN '{TRACE}' AND '{TRACE}'",
        f"trace_id IS NOT DISTINCT FROM '{TRACE}'",
        f"EXISTS (SELECT 1 FROM logs WHERE logs.trace_id = spans.trace_id AND spans.trace_id = '{TRACE}')",
        f"span_id IN (SELECT span_id FROM logs WHERE trace_id = '{TRACE}')",
    ],
)
def test_a_text_beside_an_id_becomes_bytes(condition: str) -> None:
    """In comparisons, lists and subqueries."""
    assert BYTES in write(parse(f"SELECT * FROM spans WHERE {condition}", SCHEMAS).tree)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT * FROM (SELECT hex(trace_id) AS trace_id FROM spans) WHERE trace_id = '{TRACE}'",
        f"WITH x(trace_id) AS (SELECT message FROM logs) SELECT * FROM x WHERE trace_id = '{TRACE}'",
        f"SELECT hex(trace_id) AS trace_id, count(*) FROM spans GROUP BY ALL HAVING trace_id = '{TRACE}'",
        f"SELECT * FROM (SELECT * REPLACE (hex(trace_id) AS trace_id) FROM spans) WHERE trace_id = '{TRACE}'",
        f"SELECT * FROM (SELECT unnest({{'trace_id': message}}) FROM logs) WHERE trace_id = '{TRACE}'",
        f"SELECT * FROM logs WHERE message = '{TRACE}'",
        f"SELECT * FROM (VALUES ('{TRACE}')) AS v(trace_id) WHERE trace_id = '{TRACE}'",
    ],
)
def test_a_text_column_of_the_same_name_is_compared_as_text(sql: str) -> None:
    """Whoever names a text `trace_id` means the text."""
    assert BYTES not in write(parse(sql, SCHEMAS).tree)


def test_a_parameter_is_an_id_as_well() -> None:
    """A text that a client binds becomes bytes as a literal does."""
    assert BYTES in write(parse("SELECT * FROM spans WHERE trace_id = $1", SCHEMAS, [TRACE]).tree)


def test_digits_of_another_length_are_refused() -> None:
    """No row could match, and the hint says how to look for a part."""
    with pytest.raises(QueryError, match="expected 32 hexadecimal digits") as caught:
        parse("SELECT * FROM spans WHERE trace_id = '5b8a'", SCHEMAS)
    assert "LIKE" in (caught.value.hint or "")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """Spans of sixty traces over two days, of two organizations."""
    lake = make_lake(tmp_path_factory.mktemp("ids"))
    for owner in (ACME, OTHER):
        rows = [
            {
                "organization_id": owner,
                "timestamp": START + timedelta(hours=number % 48),
                "trace_id": trace,
                "span_id": trace[:8],
                "start_time_unix_nano": 1,
                "record_id": trace,
            }
            for number, trace in enumerate(TRACES)
        ]
        put(lake, SPANS, rows, f"{owner}-more")
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    yield service
    service.close()


FORMS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    lambda digits: f"0x{digits}",
    lambda digits: f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
    lambda digits: f"00-{digits}-{digits[:16]}-01",
    lambda digits: f"{digits}/{digits[:16]}",
)


@settings(deadline=None, max_examples=60)
@given(
    traces=st.lists(st.one_of(st.sampled_from(TRACES), st.binary(min_size=16, max_size=16)), min_size=1, max_size=4),
    form=st.sampled_from(FORMS),
    operator=st.sampled_from(["IN", "NOT IN", "=", "<>", "<", ">="]),
)
@example(traces=[TRACES[0]], form=str, operator="=")
def test_pruning_by_texts_loses_no_row(
    service: QueryService, traces: list[bytes], form: Callable[[str], str], operator: str
) -> None:
    """The rows are those that a comparison in Python gives, and the files are those of the same bytes."""
    texts = [form(trace.hex()) for trace in traces]
    hexes = [f"unhex('{trace.hex()}')" for trace in traces]
    answers, files = [], []
    for values in ([f"'{text}'" for text in texts], hexes):
        listed = f"({', '.join(values)})" if "IN" in operator else values[0]
        sql = f"SELECT trace_id FROM spans WHERE timestamp >= '2026-01-01' AND trace_id {operator} {listed}"
        running = service.start(Request(sql, ACME, fresh=True))
        answers.append(sorted(row["trace_id"] for batch in running.batches() for row in batch.to_pylist()))
        files.append(running.statistics.files)
    expected = {
        "IN": lambda trace: trace in traces,
        "NOT IN": lambda trace: trace not in traces,
        "=": lambda trace: trace == traces[0],
        "<>": lambda trace: trace != traces[0],
        "<": lambda trace: trace < traces[0],
        ">=": lambda trace: trace >= traces[0],
    }[operator]
    assert answers == [sorted(filter(expected, TRACES))] * 2
    assert files[0] == files[1]


def test_an_id_as_text_prunes_files(service: QueryService) -> None:
    """One bucket of sixteen is read, by the condition that EXPLAIN shows."""
    digits = TRACES[5].hex()
    running = service.start(Request(f"SELECT count(*) FROM spans WHERE trace_id = '{digits}'", ACME))
    assert sum(batch.num_rows for batch in running.batches()) == 1
    assert running.statistics.pruned_files > 5 * running.statistics.files
    assert running.statistics.scans[0].predicate == f"trace_id = unhex('{digits}')"
