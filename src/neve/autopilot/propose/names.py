"""What a proposal's branch and a table's file are called, whatever the table is called."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from neve.errors import ConfigError

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout

PREFIX = "neve/autopilot"
ID_DIGITS = 12
# Dots that git takes in no name of a branch: at either end, two in a row, and before a last `lock`.
_FORBIDDEN_DOT = re.compile(r"^\.|\.(?=\.)|\.(?=lock$)|\.$")


def word(text: str) -> str:
    """A text as one part of a branch's name or a path; different texts have different words.

    >>> word("telemetry.spans"), word("a b/c~..d.lock")
    ('telemetry.spans', 'a%20b%2Fc%7E%2E.d%2Elock')
    """
    if not text:
        raise ConfigError("a table's name is empty, expected a namespace and a name")
    return _FORBIDDEN_DOT.sub("%2E", quote(text, safe="").replace("~", "%7E"))


def branch_of(table: str, proposal_id: str) -> str:
    """The branch of a proposal."""
    return f"{PREFIX}/{word(table)}/{word(proposal_id)}"


def spec_path(folder: str, table: str) -> str:
    """The file of a table's spec, in the repository."""
    name = f"{word(table)}.yaml"
    return f"{folder}/{name}" if folder else name


def proposal_path(table: str, proposal_id: str) -> str:
    """The file that tells what is proposed, where no forge shows it."""
    return f"proposals/{word(table)}/{word(proposal_id)}.md"


def proposal_id(table: str, before: Layout, after: Layout) -> str:
    """The id of a change: the same change has the same id, so that proposing it again updates what is there."""
    return hashlib.sha256(repr((table, before, after)).encode()).hexdigest()[:ID_DIGITS]
