"""Tempo's own list of queries: each is parsed or refused as Tempo does."""

import os
from pathlib import Path

import pytest
import yaml

from neve.errors import InvalidExpression
from neve.traceql.language.checks import NotSupported
from neve.traceql.language.parser import parse
from tests.parts.cache import home

FILE = "tempo/pkg/traceql/test_examples.yaml"
LISTS = ("valid", "parse_fails", "validate_fails", "unsupported")


def classify(text: str) -> str:
    """Return the list that a query belongs to."""
    try:
        found = parse(text)
    except NotSupported:
        return "unsupported"
    except InvalidExpression as error:
        return "parse_fails" if "parse error" in str(error) else "validate_fails"
    assert parse(str(found)) == found, f"{text} is printed as {found}"
    return "valid"


@pytest.mark.outside
def test_corpus(request: pytest.FixtureRequest) -> None:
    """Each query is in the list that Tempo has it in, and a valid one is the same after it was printed."""
    if "outside" not in (request.config.option.markexpr or ""):
        pytest.skip("runs by make test-outside")
    path = Path(os.environ.get("NEVE_OUTSIDE") or home() / "outside") / FILE
    if not path.exists():
        pytest.skip(f"{FILE} is absent: see tests/outside/README.md")
    lists = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert sum(len(lists[name]) for name in LISTS) >= 463
    assert not [(text, name) for name in LISTS for text in lists[name] if classify(text) != name]
