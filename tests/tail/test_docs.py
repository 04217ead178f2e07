"""The page about tail sampling: its policies are read, its settings are accepted, its query runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from neve.app.settings import Settings
from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.config.policy_parser import NESTINGS
from neve.tail.policy.config.sections import LEAF_SECTIONS
from tests.tail.lakes import Span, put

if TYPE_CHECKING:
    from tests.tail.lakes import Desk

PAGE = (Path(__file__).parents[2] / "docs/tail.md").read_text()
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_policies_and_settings_are_read() -> None:
    """Each block is a policy file or a part of neve.yaml."""
    files = [block for block in BLOCKS if "tail_sampling" in block]
    settings = [block for block in BLOCKS if "tail" in block]
    assert len(files) + len(settings) == len(BLOCKS) > 2
    for block in files:
        assert len(read_policies(block).policies) == len(block["tail_sampling"]["policies"])
    for block in settings:
        assert Settings.model_validate(block).tail


def test_every_type_of_policy_is_in_the_table() -> None:
    """And nothing that is none."""
    table = PAGE.split("| type | what it does here |")[1].split("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if line)))
    assert named == {*LEAF_SECTIONS, *NESTINGS}


def test_the_query_counts_what_there_was(desk: Desk) -> None:
    """The SQL of the page, on a small lake."""
    from neve.query.config import QueryConfig
    from neve.query.service import run_query

    put(desk.lake, [Span(number, 1, error=number < 5) for number in range(20)])
    desk.run(at=1000)
    (sql,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    rows = run_query(desk.lake, QueryConfig(), sql, "acme").read_all().to_pylist()
    assert rows == [{"service_name": "cart", "traces": 5.0, "failed": 5.0}]
