"""Words and forms that newcomers stumble over stay out of the texts that users read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = {"writing.md"}  # has them as bad examples
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
FORMS = re.compile(
    r"\b(those who|whoever|whose every|no hand|stood by for|nothing is wrong with|gone on with|well again|not well|"
    r"(?:is|are) told|takes? in|taken in|anew|is at it|as it were|the like|so it is where)\b",
    re.IGNORECASE,
)


def find_forms(text: str) -> list[str]:
    """Return the lines with a form that has a plain word."""
    return [line.strip() for line in text.splitlines() if FORMS.search(line)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NOT_OURS], ids=lambda page: page.name)
def test_pages_use_plain_words(page: Path) -> None:
    """docs/writing.md has the words to use instead. The pages of commands and settings have all help texts."""
    assert find_forms(page.read_text(encoding="utf-8")) == []


def test_a_form_is_found() -> None:
    """Otherwise the tests above would prove nothing."""
    assert find_forms("Port of those who watch\nPort for health checks") == ["Port of those who watch"]
