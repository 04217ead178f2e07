"""Markdown that shows names and texts as they are, whatever is in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
_TICKS = re.compile(r"`+")
NOBODY = "@\u200b"  # an at-sign that calls nobody by name


def plain(text: str) -> str:
    r"""A text in one line that is nothing but text.

    >>> plain("a|b <i>\nc")
    'a\\|b \\<i\\> c'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", NOBODY)


def code(text: str) -> str:
    """A text in one line, in letters of one width; also within a table."""
    line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (_longest(line) + 1)
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else ""


def fenced(text: str, language: str = "") -> str:
    """Lines as they are, behind a fence that none of them ends."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
