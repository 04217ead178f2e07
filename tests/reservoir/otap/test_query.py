"""Queries of one's own: both forms, what they may leave out, and what is said where they go wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError
from neve.reservoir.otap.decide import default_query
from tests.otap.stars import make_star
from tests.reservoir.otap.contents import by_name, check_valid, contents, files_of, numbered
from tests.reservoir.otap.expected import counts
from tests.reservoir.otap.test_job import mixed, two_parts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reservoir.otap.test_job import Sampler


@pytest.mark.long
def test_the_default_as_a_query_decides_the_same(sampler: Sampler, tmp_path: Path) -> None:
    """It is what `inspect --query` prints, to begin one's own with."""
    two_parts(tmp_path / "in")
    job = sampler(k=7)
    job.run()
    sampler("asked", query=default_query(job.config)).run()
    assert by_name(contents(tmp_path / "out")) == by_name(contents(tmp_path / "asked"))


def test_rows_with_a_count_of_ones_own(sampler: Sampler, tmp_path: Path) -> None:
    """Any SQL may decide; here every third record by its attribute, standing for three times its weight."""
    two_parts(tmp_path / "in")
    query = """
        SELECT a._part_id, a.parent_id AS id, 3 * coalesce(w.weight, 1) AS adjusted_count, 'thirds' AS why
        FROM log_attrs a LEFT JOIN weights w ON w._part_id = a._part_id AND w.id = a.parent_id
        WHERE a.key = 'n' AND a.int % 3 = 0"""
    sampler(query=query).run()
    weights = {one.body: float(one.weight or 1) for one in mixed() if one.attributes}
    assert counts(tmp_path / "out") == {
        name: 3 * weight for name, weight in weights.items() if int(str(name)[1:]) % 3 == 0
    }
    check_valid(tmp_path / "out")


def test_ids_alone_tell_records_of_one_part(sampler: Sampler, tmp_path: Path) -> None:
    """Of two they do not, and that is said."""
    query = "SELECT weighted_reservoir_sample(struct(id, 1D), 4) AS sample FROM logs"
    make_star(tmp_path / "in", logs=numbered(20))
    sampler(query=query).run()
    assert sum(counts(tmp_path / "out").values()) > 4
    assert len(contents(tmp_path / "out")) == 4
    two_parts(tmp_path / "two")
    words = "identifies records by id alone, but the window has 2 parts"
    for wrong in (query, "SELECT id, 1 AS adjusted_count FROM logs"):
        with pytest.raises(ConfigError, match=words):
            sampler("refused", "two", query=wrong).run()
    assert not files_of(tmp_path / "refused")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "reservoir.query can't be run: [PARSE_SYNTAX_ERROR]"),
        ("SELECT id FROM nothing", "reservoir.query can't be run: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT id, 2 AS count FROM logs", "reservoir.query returns struct<id:bigint,count:int>"),
        (
            "SELECT weighted_reservoir_sample(struct(severity_text, 1D), 2) AS s FROM logs",
            "reservoir.query samples string",
        ),
        (
            "SELECT weighted_reservoir_sample(struct(id, 1D), 0) AS s FROM logs",
            "reservoir.query returns struct<s:void>",
        ),
        (
            "SELECT id, -1 AS adjusted_count FROM logs",
            'reservoir.query failed: adjusted_count of record {"id":0} is -1.0',
        ),
        ("SELECT NULL AS id, 1 AS adjusted_count", "reservoir.query failed: adjusted_count of record {} is 1.0"),
        ("SELECT 0 AS id, 1 / (id - id) AS adjusted_count FROM logs", "reservoir.query failed: [DIVIDE_BY_ZERO]"),
        (
            "SELECT 0 AS id, 1 AS adjusted_count FROM logs",
            "reservoir.query returns 2 decisions about 1 records of 19700101T000000Z: it names a record twice",
        ),
        ("SELECT 99 AS id, 1 AS adjusted_count", "reservoir.query returns 1 decisions about 0 records"),
    ],
)
def test_queries_that_go_wrong_are_refused(sampler: Sampler, tmp_path: Path, query: str, words: str) -> None:
    """In words, and with nothing published."""
    make_star(tmp_path / "in", logs=numbered(2))
    with pytest.raises(ConfigError, match=re.escape(words)):
        sampler(query=query).run()
    assert not files_of(tmp_path / "out")
