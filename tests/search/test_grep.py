"""Searches against a plain search of every line, over many files, so that most of them are left out by the index."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from neve.app.query.service import SearchIndexFilter
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS
from neve.query.config import QueryConfig
from neve.query.planning.file_planner import FilePlanner
from neve.query.request import Request
from neve.query.service import Ports, QueryService
from neve.search.config import SearchConfig
from neve.search.lookup import SearchIndex
from tests.query.lakes import ACME, NOW
from tests.search.lakes import index_here, with_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake

SEED = 21
SEPARATORS = (" ", " ", " ", ", ", "-", "_", ": ", "/", "=", " (", '"')
ODD = ("timeout", "Timeout", "TIMEOUT", "10.0.0.7", "user_id", "naïve", "Straße", "error404", "%done", "it's", "日本")


@dataclass(frozen=True)
class Question:
    """A condition of SQL, the pattern of a plain search for it, and a text that its lines have in lower case."""

    condition: str
    pattern: re.Pattern[str]
    needle: str


class PlainText:
    """All lines as one text, for a plain search: lines with the needle are found first, then the pattern decides."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._lower = "\n".join(lines).lower()
        self._ends = np.cumsum([len(line) + 1 for line in lines])
        assert int(self._ends[-1]) == len(self._lower) + 1, "a letter has another length in lower case"

    def search(self, question: Question) -> list[int]:
        """Numbers of the lines that match."""
        return [number for number in self._candidates(question.needle) if question.pattern.search(self.lines[number])]

    def _candidates(self, needle: str) -> Iterator[int]:
        at = self._lower.find(needle)
        while at >= 0:
            number = int(np.searchsorted(self._ends, at, side="right"))
            yield number
            at = self._lower.find(needle, int(self._ends[number]))


def make_lines(count: int, files: int) -> list[list[str]]:
    """Lines of each file; two of three words are in one file only."""
    chance = random.Random(SEED)
    common = [_word(chance) for _ in range(200)] + list(ODD)
    lines = []
    for _file in range(files):
        own = [_word(chance) for _ in range(150)]
        lines.append(_make_file(chance, [*common, *own * 3], count // files))
    return lines


def _make_file(chance: random.Random, words: list[str], count: int) -> list[str]:
    """Lines of 3 to 8 words; all are drawn together."""
    sizes = chance.choices(range(3, 9), k=count)
    pieces = [*map(add, chance.choices(words, k=sum(sizes)), chance.choices(SEPARATORS, k=sum(sizes)))]
    ends = [*accumulate(sizes, initial=0)]
    return ["".join(pieces[start:end]) for start, end in pairwise(ends)]


def _word(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghijklmnoprstuvw0123", k=chance.randrange(3, 10)))


def fill(lake: Lake, lines: list[list[str]]) -> None:
    """A data file for each list of lines; the number of a line is its time."""
    table, number = lake.table("logs"), 0
    written = []
    for texts in lines:
        rows = pa.Table.from_pylist([], schema=LOGS.schema)
        columns: dict[str, Any] = {
            "organization_id": pa.repeat(ACME, len(texts)),
            "timestamp": pa.repeat(pa.scalar(NOW // 1000, pa.int64()), len(texts)).cast(LOGS.schema.field(1).type),
            "message": pa.array(texts),
            "time_unix_nano": pa.array(range(number, number + len(texts)), pa.int64()),
        }
        number += len(texts)
        arrays = [columns.get(field.name, pa.nulls(len(texts), field.type)) for field in rows.schema]
        written += write_files(Target.of(table), pa.Table.from_arrays(arrays, schema=rows.schema))
    append_once(table, written, batch_id="grep", operation="test")


def draw_question(chance: random.Random, lines: list[list[str]]) -> Question:
    """A word, a phrase or a part of a line that is somewhere, and sometimes one that is nowhere."""
    line = chance.choice(chance.choice(lines))
    words = re.findall(r"[^\W_]+", line)
    kind = chance.choice(("term", "term", "phrase", "like", "ilike", "nowhere"))
    if kind == "nowhere":
        return _term(_word(chance) + "zzz")
    if kind == "term" or len(words) < 2:
        return _term(chance.choice(words))
    if kind == "phrase":
        start = chance.randrange(len(words) - 1)
        some = words[start : start + chance.choice((2, 3))]
        between = r"[\W_]+".join(map(re.escape, some))
        pattern = re.compile(rf"(?<![^\W_]){between}(?![^\W_])", re.IGNORECASE)
        return Question(f"has_phrase(message, {_quote(' '.join(some))})", pattern, some[0].lower())
    start = chance.randrange(len(line) - 3)
    part = line[start : start + chance.randrange(3, 15)]
    escaped = re.sub(r"([%_\\])", r"\\\1", part)
    flags = re.IGNORECASE if kind == "ilike" else 0
    condition = f"message {kind.upper()} {_quote(f'%{escaped}%')} ESCAPE '\\'"
    return Question(condition, re.compile(re.escape(part), flags), part.lower())


def _term(word: str) -> Question:
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE)
    return Question(f"has_term(message, {_quote(word)})", pattern, word.lower())


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def compare(lake: Lake, count: int, files: int, questions: int) -> float:
    """Ask the lake and search the lines: both find the same. Return how many files were left out on average."""
    lines = make_lines(count, files)
    fill(with_index(lake), lines)
    index_here(lake, range_rows=1000)
    planner = FilePlanner(SearchIndexFilter(lambda: SearchIndex(lake), SearchConfig()))
    service = QueryService(lake, QueryConfig(cache_bytes=0), ports=Ports(planner=planner))
    plain = PlainText([text for texts in lines for text in texts])
    chance, read = random.Random(SEED + 1), 0
    try:
        for _ in range(questions):
            question = draw_question(chance, lines)
            running = service.start(Request(f"SELECT time_unix_nano FROM logs WHERE {question.condition}", ACME))
            table = pa.Table.from_batches(running.batches(), running.schema)
            assert sorted(table.column(0).to_pylist()) == plain.search(question), question
            read += running.statistics.files
    finally:
        service.close()
    left_out = files - read / questions
    assert left_out > 0.4 * files
    return left_out


@pytest.mark.slow
def test_the_plain_search_is_that_of_every_line() -> None:
    """The needle only saves time: each pattern finds the same lines without it."""
    lines = make_lines(2_000, 4)
    plain, chance = PlainText([text for texts in lines for text in texts]), random.Random(SEED)
    for _ in range(200):
        question = draw_question(chance, lines)
        expected = [number for number, text in enumerate(plain.lines) if question.pattern.search(text)]
        assert plain.search(question) == expected, question


def test_searches_find_the_lines_of_a_plain_search(lake: Lake) -> None:
    """On 6,000 lines in 20 files."""
    compare(lake, 6_000, 20, 60)


@pytest.mark.long
def test_searches_find_the_lines_of_a_plain_search_in_a_million(
    lake: Lake, record_property: Callable[[str, object], None]
) -> None:
    """On a million lines in 100 files."""
    record_property("files_left_out", compare(lake, 1_000_000, 100, 500))
