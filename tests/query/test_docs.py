"""The statements of the documentation run, and find what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.query.config import QueryConfig
from neve.query.request import Request
from neve.query.service import QueryService, no_limits
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from neve.lake.lake import Lake

PAGE = Path(__file__).parents[2] / "docs" / "query.md"
QUERIES = re.findall(r"<!-- query -->\n```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
ROWS = (1, 1, 1, 1, 1, 0, 1, 1)  # of each, on the small lake


@pytest.mark.slow
def test_every_statement_of_the_page(lake: Lake) -> None:
    """In their order."""
    service = QueryService(lake, QueryConfig(threads=1), limits=no_limits)
    found = []
    for sql in QUERIES:
        running = service.start(Request(sql, ACME))
        found.append(pa.Table.from_batches(running.batches(), running.schema).num_rows)
    service.close()
    assert tuple(found) == ROWS
