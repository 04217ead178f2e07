"""Words and forms that newcomers stumble over stay out of the texts that users read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.openapi import build_description

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NOT_OURS = {"writing.md"}  # has them as bad examples
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FORMS = re.compile(
    r"\b(those who|whoever|whose every|no hand|stood by for|nothing is wrong with|gone on with|well again|not well|"
    r"(?:is|are) told|takes? in|taken in|anew|is at it|as it were|the like|so it is where|told twice|"
    r"asked (?:for )?again|is away|taken back|stands? (?:twice|for)|for good|go(?:es)? on|went on|moved on|rests? on|"
    r"came late|speaks? of|of unknown worth|falls? silent|in its own words|passed over|says? so|canaried|deeds?)\b",
    re.IGNORECASE,
)
# Messages are errors, hints, reasons of plans, log lines and help of metrics.
PACKAGES = sorted(path.name for path in (ROOT / "src" / "neve").iterdir() if (path / "__init__.py").exists())
MESSAGE_FORMS = re.compile(
    FORMS.pattern + r"|\b(can't tell|can't be told|can't be said|for good|for ever|is gone|are gone|goes on|go on|"
    r"look(?:s|ed)? (?:at|through)|does not answer|did happen|nobody|somebody|in words|left alone|put off|put back|"
    r"given up|gives? back|(?<!there )(?:is|are) no (?!longer)\w+|fewer would do|were quicker|speaks? (?:for|of)|"
    r"there more than once|was silent|would rather|of its own accord|the words of|up to now|unsayable|"
    r"(?:job|change) wanted|it may (?:admin|read|write)|(?:is|are) held up)\b",
    re.IGNORECASE,
)
# Sentences of OpenAPI that begin with a relative clause or name nothing.
VAGUE_OPENINGS = re.compile(
    r"(?:What|How|Who|Which|When|Whether|Something|One thing|One piece)\b|.*\b(?:that (?:is|are) to|as it last said)\b"
)
# A count before a plural noun. "3 of 5 files" and "more than 5 files" are plurals in any case.
PLURALS = re.compile(
    r"(?<!of )(?<!represent )(?<!-c )(?<!than )(?<!most )(?<!all )(?<!first )"
    r"\{[\w.()]+(?::,)?\} (?:files|rows|groups|records|batches|tables|keys)\b"
)
# Packages whose docstrings and comments are checked, too.
PLAIN_PACKAGES = ("autopilot", "demo", "reservoir", "rollup", "search", "tail")


def find_forms(text: str) -> list[str]:
    """Return the lines with a form that has a plain word."""
    return [line.strip() for line in text.splitlines() if FORMS.search(line)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NOT_OURS], ids=lambda page: page.name)
def test_pages_use_plain_words(page: Path) -> None:
    """docs/writing.md has the words to use instead. The pages of commands and settings have all help texts."""
    assert find_forms(page.read_text(encoding="utf-8")) == []


def read_messages(source: str) -> Iterator[str]:
    """Yield the string literals of a module except docstrings."""
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_messages_use_plain_words(package: str) -> None:
    """Users read errors, hints and reasons before any page."""
    files = sorted((ROOT / "src" / "neve" / package).rglob("*.py"))
    assert files
    found = [
        f"{file.name}: {text}"
        for file in files
        for text in read_messages(file.read_text(encoding="utf-8"))
        if MESSAGE_FORMS.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("package", PLAIN_PACKAGES)
def test_messages_and_comments_use_plain_words(package: str) -> None:
    """Errors, reasons, log messages, docstrings and comments of the packages that are free of these forms."""
    files = sorted((ROOT / "src/neve" / package).rglob("*.py"))
    assert files
    assert [line for file in files for line in find_forms(file.read_text(encoding="utf-8"))] == []


def list_descriptions(part: Any) -> Iterator[str]:
    """Yield the summaries and descriptions of an OpenAPI document."""
    if isinstance(part, dict):
        yield from (part[key] for key in ("summary", "description") if isinstance(part.get(key), str))
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from list_descriptions(value)


@pytest.mark.slow
def test_the_api_is_described_in_plain_words() -> None:
    """Programmers read the summaries and descriptions of OpenAPI in their clients."""
    found = set(list_descriptions(build_description()))
    assert len(found) > 100
    assert [text for text in found if MESSAGE_FORMS.search(text) or VAGUE_OPENINGS.match(text)] == []
    assert VAGUE_OPENINGS.match("How far tail sampling is.")
    assert VAGUE_OPENINGS.match("Work that is to wait.")


def test_counts_agree_with_their_nouns() -> None:
    """Commands print "1 file", not "1 files": `format_count` has the plural."""
    files = sorted((ROOT / "src" / "neve" / "cli").rglob("*.py"))
    assert [
        f"{file.name}: {text}" for file in files for text in PLURALS.findall(file.read_text(encoding="utf-8"))
    ] == []
    assert PLURALS.findall('f"{files:,} files of {size}"')
    assert not PLURALS.findall("""f"{one} of {all:,} files", f"{format_count(files, 'file')}\"""")


def test_a_form_is_found() -> None:
    """Otherwise the tests above would prove nothing."""
    assert find_forms("Port of those who watch\nPort for health checks") == ["Port of those who watch"]
    messages = list(read_messages('"""It is gone."""\nlog.info("the file is gone", path=f"{x} is missing")'))
    assert [text for text in messages if MESSAGE_FORMS.search(text)] == ["the file is gone"]
