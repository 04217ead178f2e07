"""Loki's own test corpus: series, values and errors are those of Loki."""

import os
from pathlib import Path

import pytest

from tests.logql.corpus import Mismatch, read_file, run
from tests.parts.cache import home

FOLDER = "loki/pkg/logql/internal/logqltest/testdata"
FILES = [
    "binary_operations",
    "conversions",
    "formatters",
    "functions",
    "label_filters",
    "line_filters",
    "parsers",
    "range_aggregations",
    "vector_aggregations",
]
# Evaluations that differ: only the words of the error do, which also name the series here.
_NAMES_SERIES = "the message names the match group and two of its series"
KNOWN_MISMATCHES = dict.fromkeys(
    (f"binary_operations:{line}" for line in (756, 758, 818, 820, 861, 863)), _NAMES_SERIES
)


@pytest.mark.outside
@pytest.mark.parametrize("name", FILES)
def test_corpus(name: str, request: pytest.FixtureRequest) -> None:
    """Each evaluation of a file passes, but for the known mismatches."""
    if "outside" not in (request.config.option.markexpr or ""):
        pytest.skip("runs by make test-outside")
    path = Path(os.environ.get("NEVE_OUTSIDE") or home() / "outside") / FOLDER / f"{name}.logqltest"
    if not path.exists():
        pytest.skip(f"{FOLDER}/{name}.logqltest is absent: see tests/outside/README.md")
    failed: dict[str, str] = {}
    count = 0
    for logs, evaluation in read_file(path):
        count += 1
        try:
            run(logs, evaluation)
        except Mismatch as error:
            failed[evaluation.name] = f"{evaluation.text}: {error}"
    assert count
    unknown = {key: text for key, text in failed.items() if key not in KNOWN_MISMATCHES}
    assert not unknown
    fixed = [key for key in KNOWN_MISMATCHES if key.split(":")[0] == name and key not in failed]
    assert not fixed, "these pass now: remove them from the known mismatches"
