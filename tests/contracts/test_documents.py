"""What documents do, whichever store keeps them."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.schema import CreateTable

from neve.errors import LakeError
from neve.state.documents import MAX_KEY_BYTES, PAGE, dump_document, find_prefix_end, load_document
from neve.state.sql_documents import DOCUMENTS
from tests.contracts.stores import OPENED, argument, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.state.config import StateConfig
    from neve.state.documents import Documents

SPACE = "plans"
TYPICAL = {"text": "é\0\ud800 \U0001f9ca", "number": 1.5, "big": 2**70, "none": None, "deep": {"list": [1, {}, "x"]}}
ODD_KEYS = (
    *(
        "a",
        "a/b",
        "a:b",
        "a%b",
        "a_b",
        "axb",
        "A",
        "Z",
        "a b",
        " a",
        "a\n",
        "[a",
        "(a",
        "*",
        "a*",
        "?",
        "-",
        "+",
        "{a}",
    ),
    *(
        "ä",
        "é",
        "e\u0301",
        "\u4e2d\u6587",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U0001f9ca",
        "\U0010ffff",
        "a\U0010ffff",
        "ab",
    ),
    *("a\\b", 'a"b', "a'b", "0", "10", "9", "\x01", "a\x7f"),
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)
)
VALUES = st.recursive(LEAVES, st.lists, max_leaves=4)
RACE = """
print("ready", flush=True)
sys.stdin.readline()
print(documents.swap("races", "start", None, {"winner": sys.argv[2]}))
for _ in range(25):
    while True:
        before = documents.get("counters", "processes")
        if documents.swap("counters", "processes", before, {"count": (before or {"count": 0})["count"] + 1}):
            break
"""


def increment(documents: Documents, key: str) -> None:
    """Add one to a counter, however many others do."""
    while True:
        before = documents.get("counters", key)
        count = before["count"] if before else 0
        assert isinstance(count, int)
        if documents.swap("counters", key, before, {"count": count + 1}):
            return


def at_once(count: int, work: Callable[[int], bool]) -> list[bool]:
    """What threads that begin together return."""
    start = threading.Barrier(count)

    def run(number: int) -> bool:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def race(config: StateConfig, *names: str) -> dict[str, str]:
    """What processes print that begin together when all are ready."""
    command = [sys.executable, "-c", OPENED + RACE, argument(config)]
    started = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in names
    }
    assert {process.stdout.readline() for process in started.values() if process.stdout} == {"ready\n"}
    with ThreadPoolExecutor(len(started)) as pool:
        printed = list(pool.map(lambda process: process.communicate("go\n")[0].strip(), started.values()))
    assert {process.returncode for process in started.values()} == {0}
    return dict(zip(names, printed, strict=True))


def test_a_document_comes_back_as_it_was(documents: Documents) -> None:
    """With every kind of value, under its own key in its own space."""
    documents.put(SPACE, "k", TYPICAL)
    documents.put("other", "k", {"other": True})
    documents.put(SPACE, "empty", {})
    assert documents.get(SPACE, "k") == TYPICAL
    assert documents.get("other", "k") == {"other": True}
    assert documents.get(SPACE, "empty") == {}
    assert documents.get(SPACE, "K") is None


def test_the_last_one_stays(documents: Documents) -> None:
    """Putting replaces, deleting forgets, and deleting nothing is no fault."""
    documents.put(SPACE, "k", {"n": 1})
    documents.put(SPACE, "k", {"n": 2})
    assert list(documents.entries(SPACE)) == [("k", {"n": 2})]
    for _ in range(2):
        documents.delete(SPACE, "k")
        assert documents.get(SPACE, "k") is None
        assert list(documents.entries(SPACE)) == []


def test_looking_makes_nothing(documents: Documents, store: StateConfig) -> None:
    """Where there is no store yet, there are no documents; a server is there already."""
    assert documents.get(SPACE, "k") is None
    assert list(documents.entries(SPACE)) == []
    documents.delete(SPACE, "k")
    assert documents.swap(SPACE, "k", None, None)
    assert documents.now().tzinfo is UTC
    assert store.file is None or not store.file.exists()


def test_keys_come_in_the_order_of_their_code_points(documents: Documents) -> None:
    """Whatever marks they hold, and whatever language the database speaks."""
    keys = list(ODD_KEYS)
    random.Random(7).shuffle(keys)
    for number, key in enumerate(keys):
        documents.put(SPACE, key, {"number": number})
    documents.put("plan", "a", {})
    documents.put("planse", "a", {})
    assert [key for key, _ in documents.entries(SPACE)] == sorted(ODD_KEYS)
    assert all(value == {"number": keys.index(key)} for key, value in documents.entries(SPACE))


def test_a_prefix_is_taken_as_it_is(documents: Documents) -> None:
    """No mark of it means anything, and upper case is not lower case."""
    for key in ODD_KEYS:
        documents.put(SPACE, key, {})
    for prefix in (*ODD_KEYS, "", "a/", "zz"):
        found = [key for key, _ in documents.entries(SPACE, prefix)]
        assert found == sorted(key for key in ODD_KEYS if key.startswith(prefix)), prefix


def test_many_documents_come_page_by_page(documents: Documents) -> None:
    """Each once, while others are deleted and added."""
    keys = [f"k{number:04}" for number in range(2 * PAGE + 3)]
    for key in keys:
        documents.put(SPACE, key, {})
    assert [key for key, _ in documents.entries(SPACE, "k")] == keys
    entries = documents.entries(SPACE)
    first = [next(entries)[0] for _ in range(PAGE)]
    documents.delete(SPACE, keys[PAGE])
    documents.put(SPACE, "a", {})
    assert first + [key for key, _ in entries] == keys[:PAGE] + keys[PAGE + 1 :]


@pytest.mark.slow
def test_a_document_may_be_large(documents: Documents) -> None:
    """A plan with thousands of files, swapped as any other."""
    plan: dict[str, object] = {"files": [{"path": f"s3://lake/{n:06}-é" * 4, "bytes": n} for n in range(30_000)]}
    assert len(dump_document(plan)) > 3_000_000
    documents.put(SPACE, "plan", plan)
    assert documents.get(SPACE, "plan") == plan
    assert not documents.swap(SPACE, "plan", {**plan, "more": 1}, None)
    assert documents.swap(SPACE, "plan", plan, {**plan, "done": True})
    assert [value["done"] for _, value in documents.entries(SPACE)] == [True]


def test_a_swap_needs_what_is_expected(documents: Documents) -> None:
    """From nothing, to something else, to nothing; what is not as expected stays as it is."""
    assert not documents.swap(SPACE, "k", {"n": 1}, {"n": 2})
    assert not documents.swap(SPACE, "k", {}, None)
    assert documents.swap(SPACE, "k", None, {"n": 1, "m": [1, 2]})
    assert not documents.swap(SPACE, "k", None, {"n": 2})
    assert not documents.swap(SPACE, "k", None, None)
    assert not documents.swap(SPACE, "k", {"n": 1}, {"n": 2})
    assert documents.get(SPACE, "k") == {"n": 1, "m": [1, 2]}
    assert documents.swap(SPACE, "k", {"m": (1, 2), "n": 1}, {"n": 2})
    assert documents.swap(SPACE, "k", {"n": 2}, {"n": 2})
    assert not documents.swap(SPACE, "k", {"n": 1}, None)
    assert [key for key, _ in documents.entries(SPACE)] == ["k"]
    assert documents.swap(SPACE, "k", {"n": 2}, None)
    assert list(documents.entries(SPACE)) == []
    assert documents.swap(SPACE, "k", None, None)


def test_what_was_read_can_be_swapped(documents: Documents) -> None:
    """Every kind of value compares equal to itself after it was stored."""
    documents.put(SPACE, "k", TYPICAL)
    assert documents.swap(SPACE, "k", documents.get(SPACE, "k"), {})


def test_one_thread_wins_a_swap(store: StateConfig) -> None:
    """Of many that expect the same, each with connections of its own: when the table is made in the race, too."""
    shared = [opened(store) for _ in range(8)]
    won = at_once(8, lambda number: shared[number].swap("races", "start", None, {"winner": number}))
    assert won.count(True) == 1
    assert shared[0].get("races", "start") == {"winner": won.index(True)}
    won = at_once(8, lambda number: shared[number].swap("races", "start", {"winner": won.index(True)}, None))
    assert won.count(True) == 1
    for documents in shared:
        documents.close()


@pytest.mark.slow
def test_processes_race_as_threads_do(store: StateConfig, documents: Documents) -> None:
    """One wins a swap that all try, and no increment of any is lost."""
    printed = race(store, "a", "b", "c")
    assert sorted(printed.values()) == ["False", "False", "True"]
    assert printed[str((documents.get("races", "start") or {})["winner"])] == "True"
    assert documents.get("counters", "processes") == {"count": 75}


def test_no_increment_is_lost_between_threads(documents: Documents) -> None:
    """Threads that share the connections count exactly."""

    def count(_number: int) -> bool:
        for _ in range(10):
            increment(documents, "threads")
        return True

    at_once(6, count)
    assert documents.get("counters", "threads") == {"count": 60}


def test_the_clock_is_the_stores(documents: Documents) -> None:
    """It goes on, in UTC; here store and test share a machine."""
    before, first, second, after = datetime.now(UTC), documents.now(), documents.now(), datetime.now(UTC)
    assert first <= second
    assert before - timedelta(seconds=5) < first
    assert second < after + timedelta(seconds=5)
    assert first.tzinfo is UTC


def test_a_store_keeps_its_documents(store: StateConfig, documents: Documents) -> None:
    """Another one finds them; one that was closed opens again."""
    documents.put(SPACE, "k", {"n": 1})
    documents.close()
    other = opened(store)
    assert other.get(SPACE, "k") == {"n": 1}
    other.close()
    assert documents.get(SPACE, "k") == {"n": 1}


@pytest.mark.parametrize(
    ("space", "key"), [("", "k"), ("s" * 201, "k"), ("s", ""), ("s", "a\0b"), ("s", "\ud800"), ("s", "é" * 1001)]
)
def test_a_place_that_not_every_store_has_is_refused(documents: Documents, space: str, key: str) -> None:
    """Before anything is asked or changed, and with what is expected."""
    uses: tuple[Callable[[], object], ...] = (
        lambda: documents.put(space, key, {}),
        lambda: documents.get(space, key),
        lambda: documents.delete(space, key),
        lambda: documents.swap(space, key, None, {}),
        lambda: documents.swap(space, key, None, None),
    )
    for use in uses:
        with pytest.raises(LakeError, match=r"of a document is '.*', expected 1 to .* bytes of UTF-8 without a NUL"):
            use()


@pytest.mark.parametrize(("space", "prefix"), [("", ""), ("s", "\0"), ("s", "\ud800")])
def test_a_prefix_that_no_key_has_is_refused(documents: Documents, space: str, prefix: str) -> None:
    """When it is asked for, not when the first entry is."""
    with pytest.raises(LakeError, match="of a document is"):
        documents.entries(space, prefix)


def test_the_longest_key_is_kept(documents: Documents) -> None:
    """Even one that can't be compressed."""
    noise = random.Random(11)
    space = "".join(chr(noise.randrange(0x100, 0x7FF)) for _ in range(100))
    key = "".join(chr(noise.randrange(0x100, 0x7FF)) for _ in range(MAX_KEY_BYTES // 2))
    documents.put(space, key, {"n": 1})
    assert list(documents.entries(space, key)) == [(key, {"n": 1})]


def test_postgres_is_told_the_order_of_keys() -> None:
    """A server that knows no language but C would hide it if it were not."""
    engine = create_engine("postgresql+psycopg2://nowhere/neve")  # nothing connects
    made = str(CreateTable(DOCUMENTS).compile(engine))
    assert made.count('TEXT COLLATE "C"') == 2


@given(st.text(max_size=4), st.text(max_size=4))
@example("\U0010ffff", "\U0010ffff\U0010ffff")
@example("a\U0010ffff", "b")
@example("\ud7ff", "\ue000")
def test_a_prefix_is_a_range(prefix: str, key: str) -> None:
    """A key begins with a prefix when it lies between that and what comes beyond it, by code point and by byte."""
    end = find_prefix_end(prefix)
    assert key.startswith(prefix) == (prefix <= key and (end is None or key < end))
    assert key.startswith(prefix) == (prefix.encode() <= key.encode() and (end is None or key.encode() < end.encode()))


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_equal_documents_have_one_text(value: dict[str, object]) -> None:
    """Whatever the order of their fields; and the text gives the document back."""
    assert dump_document(value) == dump_document(dict(reversed(value.items())))
    assert load_document(dump_document(value)) == value
    assert dump_document(load_document(dump_document(value))) == dump_document(value)


def test_what_is_no_json_is_refused() -> None:
    """Rather than stored as something else."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_document({"n": float("nan")})
    with pytest.raises(TypeError):
        dump_document({"n": {1, 2}})
