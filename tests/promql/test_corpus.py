"""Prometheus' own test corpus: results, errors and annotations are those of Prometheus."""

import os
from pathlib import Path

import pytest

from tests.parts.cache import home
from tests.promql.corpus import Mismatch, read_file, run
from tests.promql.known_mismatches import KNOWN_MISMATCHES

FOLDER = "prometheus/promql/promqltest/testdata"
FILES = [
    "aggregators",
    "at_modifier",
    "collision",
    "duration_expression",
    "extended_vectors",
    "fill-modifier",
    "functions",
    "histograms",
    "info",
    "limit",
    "literals",
    "name_label_dropping",
    "native_histograms",
    "operators",
    "range_queries",
    "selectors",
    "staleness",
    "start_timestamps",
    "subquery",
    "trig_functions",
    "type_and_unit",
]
MINIMUM = 0.98  # of a file's evaluations


@pytest.mark.outside
@pytest.mark.parametrize("name", FILES)
def test_corpus(name: str, request: pytest.FixtureRequest) -> None:
    """Each evaluation of a file passes, but for the known mismatches."""
    if "outside" not in (request.config.option.markexpr or ""):
        pytest.skip("runs by make test-outside")
    path = Path(os.environ.get("NEVE_OUTSIDE") or home() / "outside") / FOLDER / f"{name}.test"
    if not path.exists():
        pytest.skip(f"{FOLDER}/{name}.test is absent: see tests/outside/README.md")
    failed: dict[str, str] = {}
    count = 0
    for source, evaluation in read_file(path):
        count += 1
        try:
            run(source, evaluation)
        except Mismatch as error:
            failed[evaluation.name] = f"{evaluation.text}: {error}"
    assert count
    unknown = {key: text for key, text in failed.items() if key not in KNOWN_MISMATCHES}
    assert not unknown
    fixed = [key for key in KNOWN_MISMATCHES if key.split(":")[0] == name and key not in failed]
    assert not fixed, "these pass now: remove them from the known mismatches"
    assert len(failed) <= (1 - MINIMUM) * count
