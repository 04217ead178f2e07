"""Names: whatever a table is called, git takes its branch, and no two share one."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neve.autopilot.propose.proposal import escape_name, make_proposal_id, proposal_branch, spec_path
from neve.errors import ConfigError
from tests.autopilot.propose.examples import AFTER, BEFORE, OTHER, TABLE, names

ODD = ("a.lock", ".a", "a.", "a..b", "@{", "a~1", "^", "*", "\\", "\x7f", "-", "a b", "%2E", "ä/ö", "..", ".")


@given(st.lists(names, min_size=20, max_size=20))
@example(list(ODD))
def test_words_are_parts_of_names(texts: list[str]) -> None:
    """One part each, printable, and different for different texts."""
    found = [escape_name(text) for text in texts]
    assert all(one.isascii() and one.isprintable() and not set(one) & set("/ ~^:?*[\\") for one in found)
    assert len(set(found)) == len(set(texts))


def test_git_takes_the_branches_of_odd_tables() -> None:
    """The command itself says so."""
    for text in ODD:
        subprocess.run(
            ["git", "check-ref-format", "--branch", proposal_branch(text, text)], check=True, capture_output=True
        )


def test_names_say_what_they_are_of() -> None:
    """A usual table reads as it is written."""
    assert proposal_branch(TABLE, "a1") == "neve/autopilot/telemetry.spans/a1"
    assert spec_path("tables", TABLE) == "tables/telemetry.spans.yaml"
    assert spec_path("", TABLE) == "telemetry.spans.yaml"
    with pytest.raises(ConfigError, match="is empty"):
        escape_name("")


def test_the_same_change_has_the_same_id() -> None:
    """By table and layouts, both ways different."""
    ids = {make_proposal_id(TABLE, *pair) for pair in ((BEFORE, AFTER), (AFTER, BEFORE), (BEFORE, OTHER))}
    assert len(ids | {make_proposal_id("other", BEFORE, AFTER)}) == 4
    assert make_proposal_id(TABLE, replace(BEFORE), AFTER) == make_proposal_id(TABLE, BEFORE, AFTER)
