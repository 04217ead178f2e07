"""Thresholds of consistent sampling: probabilities, hexadecimal digits, and the member `ot` of a trace state."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.tail.policy.conditions import ot_number
from neve.tail.policy.evaluate.thresholds import (
    OtMember,
    format_threshold,
    read_ot,
    read_randomness,
    read_threshold,
    to_probabilities,
    to_thresholds,
    write_threshold,
    write_thresholds,
)
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD, derive_randomness

HALF = MAX_THRESHOLD // 2
THRESHOLDS = st.integers(0, MAX_THRESHOLD - 1)


@pytest.mark.parametrize(
    ("probability", "text"),
    [(1, "0"), (0.5, "8"), (0.25, "c"), (0.1, "e6666666666666"), (0.01, "fd70a3d70a3d71"), (2**-56, "ffffffffffffff")],
)
def test_texts_of_probabilities(probability: float, text: str) -> None:
    """Without zeros at the end, but one digit at least."""
    assert format_threshold(int(to_thresholds(np.array([probability]))[0])) == text


@seed(1)
@given(THRESHOLDS)
def test_a_text_reads_back(threshold: int) -> None:
    """Exactly, with at most fourteen digits."""
    text = format_threshold(threshold)
    assert re.fullmatch("[0-9a-f]{1,14}", text)
    assert text == "0" or not text.endswith("0")
    assert read_threshold(text) == threshold


@seed(2)
@given(st.lists(st.floats(1e-12, 1), min_size=1))
def test_probabilities_read_back(probabilities: list[float]) -> None:
    """Up to the grain of 56 bits."""
    array = np.array(probabilities)
    assert np.allclose(to_probabilities(to_thresholds(array)), array, rtol=0, atol=2.0**-56)


def test_never_is_only_said_of_nothing() -> None:
    """A chance that is smaller than the grain is still one; no chance has no text."""
    assert to_thresholds(np.array([0.0, 1e-30])).tolist() == [MAX_THRESHOLD, MAX_THRESHOLD - 1]
    assert format_threshold(MAX_THRESHOLD) == ""


@pytest.mark.parametrize("text", ["", "g", "C", "0x1", " 8", "8 ", "123456789abcdef", "-1", "8\n"])
def test_bad_thresholds(text: str) -> None:
    """One to fourteen digits in lower case, nothing else."""
    assert read_threshold(text) is None


@pytest.mark.parametrize("text", ["", "8", "D29D6A7215CED0", "d29d6a7215ced", "d29d6a7215ced00"])
def test_bad_randomness(text: str) -> None:
    """Exactly fourteen digits."""
    assert read_randomness(text) is None


def test_randomness_is_the_end_of_the_id() -> None:
    """The last seven bytes."""
    ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    assert derive_randomness(ids).tolist() == [0x090A0B0C0D0E0F, 0x191A1B1C1D1E1F]
    assert derive_randomness(ids[:0]).tolist() == []


@pytest.mark.parametrize(
    ("tracestate", "said"),
    [
        (None, OtMember()),
        ("", OtMember()),
        ("ot=th:8", OtMember(HALF)),
        ("ot=rv:d29d6a7215ced0;th:c;x:Y.z-1", OtMember(HALF + HALF // 2, 0xD29D6A7215CED0, (("x", "Y.z-1"),))),
        ("a=1, ot=th:0 ,,b@c=2", OtMember(0)),
        ("aot=th:8", OtMember()),
        ("ot=th:8;", OtMember()),
        ("ot=th:8;th:c", OtMember()),
        ("ot=th:X", OtMember()),
        ("ot=th:8;rv:1", OtMember()),
        ("ot=th:8,ot=th:c", OtMember()),
        ("ot=th:8,A=1", OtMember()),
        ("ot=th:8,a", OtMember()),
        ("ot=th:8,a=\u00e9", OtMember()),
        ("ot=th:8," + ",".join(f"k{place}=1" for place in range(32)), OtMember()),
        (f"ot=th:8;x:{'y' * 260}", OtMember()),
    ],
)
def test_ot_is_read_strictly(tracestate: str | None, said: OtMember) -> None:
    """Anything that breaks the grammar says nothing at all, in Python and in SQL."""
    assert read_ot(tracestate) == said
    assert read_in_sql([tracestate]) == [(said.threshold, said.randomness)]


DIGITS = st.sampled_from(["8", "c0", "0", "e6666666666666", "d29d6a7215ced0", "123456789abcdef", "", "X", "D", "8 "])
FIELDS = st.one_of(
    st.builds("{}:{}".format, st.sampled_from(["th", "rv", "x", "th2", "T", ""]), DIGITS),
    st.sampled_from(["", "th", ":", "x:Y.z-1", "x:a b", "x:" + "y" * 240]),
)
SPACE = st.sampled_from(["", "", "", " ", "\t", "\n"])
OTHER_MEMBERS = st.sampled_from(
    ["", "a=1", "b@c=2", "A=1", "a", "a=", "=1", "a=\u00e9", "a=x=y", "ot@x=th:8", "not=th:8", "k" * 256 + "=1"]
)
MEMBERS = st.one_of(
    st.lists(FIELDS, max_size=4).map(lambda fields: "ot=" + ";".join(fields)),
    OTHER_MEMBERS,
    st.integers(0, 40).map(lambda count: ",".join(f"k{place}=1" for place in range(count))),
)
ROUGH_STATES = st.lists(st.tuples(SPACE, MEMBERS, SPACE).map("".join), max_size=4).map(",".join)


@pytest.mark.slow
@seed(5)
@given(st.lists(ROUGH_STATES | st.none(), min_size=1, max_size=20))
def test_sql_reads_ot_as_python_does(states: list[str | None]) -> None:
    """The summary of a trace has T and R of a state exactly where the plain reading has them."""
    assert read_in_sql(states) == [(one.threshold, one.randomness) for one in map(read_ot, states)]


def read_in_sql(states: list[str | None]) -> list[tuple[int | None, int | None]]:
    """Read T and R of each state with the SQL of trace summaries."""
    rows = pa.table({"place": range(len(states)), "trace_state": pa.array(states, pa.string())})
    with duckdb.connect() as connection:
        connection.register("spans", rows)
        numbers = f"{ot_number('th').text}, {ot_number('rv').text}"
        return connection.execute(f"SELECT {numbers} FROM spans ORDER BY place").fetchall()


@pytest.mark.parametrize(
    ("tracestate", "threshold", "written"),
    [
        (None, HALF, "ot=th:8"),
        ("", 0, "ot=th:0"),
        ("a=1,b=2", HALF, "ot=th:8,a=1,b=2"),
        ("a=1,ot=rv:d29d6a7215ced0;x:y;th:4,b=2", HALF, "ot=th:8;rv:d29d6a7215ced0;x:y,a=1,b=2"),
        ("ot=th:c", HALF, "ot=th:c"),
        ("a=1", MAX_THRESHOLD, "a=1"),
        ("NO", HALF, "NO"),
        ("ot=th:X", HALF, "ot=th:X"),
        (f"ot=x:{'y' * 250}", HALF, f"ot=x:{'y' * 250}"),
    ],
)
def test_th_is_written_first(tracestate: str | None, threshold: int, written: str) -> None:
    """Others stay in their order, other keys of `ot` too; what can't be read is left alone."""
    assert write_threshold(tracestate, threshold) == written


def test_the_oldest_member_makes_room() -> None:
    """There are 32 at most."""
    members = [f"k{place}=1" for place in range(32)]
    assert write_threshold(",".join(members), HALF) == ",".join(["ot=th:8", *members[:31]])


STATES = st.lists(
    st.one_of(
        st.none(),
        st.sampled_from(
            ["", "a=1", "ot=th:8", "b=2,ot=rv:d29d6a7215ced0", "ot=th:zz", "ot=x:1;th:c;rv:00000000000001"]
        ),
    ),
    max_size=30,
)


@seed(3)
@given(STATES, THRESHOLDS, st.booleans())
def test_batches_are_written_one_by_one(states: list[str | None], threshold: int, sliced: bool) -> None:
    """As the single function does."""
    array = pa.array(["ot=th:4", *states], pa.string()).slice(1) if sliced else pa.array(states, pa.string())
    steps = np.array([threshold if place % 2 else HALF for place in range(len(states))], dtype=np.uint64)
    written = write_thresholds(array, steps).to_pylist()
    assert written == [write_threshold(state, int(step)) for state, step in zip(states, steps, strict=True)]
