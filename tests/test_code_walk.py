"""The walk of a command over the source files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.code_walk import make_lake, make_spans, walk

ROOT = Path(__file__).parents[1]


def test_spans_are_the_same_each_time() -> None:
    """Two trees are measured on the same lake."""
    assert make_spans(3).equals(make_spans(3))
    assert not make_spans(3).equals(make_spans(4))


@pytest.mark.e2e
def test_a_query_is_walked_in_the_order_of_its_calls(tmp_path: Path) -> None:
    """From the command to the service; modules that are only imported do not count."""
    make_lake(tmp_path)
    files = walk(tmp_path, "query", ROOT / "src")
    assert files[0] == "cli/main.py"
    assert files.index("cli/context.py") < files.index("query/service.py")
    assert "model/tables.py" not in files
    assert len(files) == len(set(files))
