"""Rules: the quick search misses nothing, and bad rules are refused at start."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.app.settings import Settings, load_settings
from neve.errors import ConfigError
from neve.redaction.config import RedactionConfig, RuleConfig
from neve.redaction.rules import compile_rules, drop_assertions

ATOMS = ("a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "é", "(?:ab)", "[]a]", r"[\]b]", "[[:alpha:]$^]", r"\.", r"\$")
ASSERTIONS = ("^", "$", r"\b", r"\B", r"\A", r"\z", "")
REPEATS = ("", "", "+", "{1,2}", "?", "*")
pieces = st.tuples(st.sampled_from(ASSERTIONS), st.sampled_from(ATOMS), st.sampled_from(REPEATS)).map("".join)
patterns = st.lists(pieces, min_size=1, max_size=4).map("".join)
alternatives = st.lists(patterns, min_size=1, max_size=3).map("|".join)
texts = st.text("abé1.$] ", max_size=8)
around = st.binary(max_size=3)


@given(alternatives, texts, around, around)
def test_the_quick_search_finds_every_match(pattern: str, text: str, before: bytes, after: bytes) -> None:
    """A text that the pattern matches is found among any bytes."""
    try:
        rule = RuleConfig(pattern=pattern)
    except ValueError:
        return  # it matches the empty text
    if not pc.match_substring_regex(pa.array([text]), pattern)[0].as_py():
        return
    rules, wire = compile_rules((rule,)), before + text.encode() + after
    assert rules.may_match(pa.array([wire, None], pa.binary())).to_pylist() == [True, False]
    assert rules.quick is None or rules.quick.find(wire, 0, len(wire))[0] >= 0
    assert rules.quick_texts is None or rules.quick_texts.find(wire, 0, len(wire))[0] >= 0


@pytest.mark.parametrize(
    ("keys", "key", "is_match"),
    [
        (["user.id"], "user.id", True),
        (["user.id"], "User.ID", True),
        (["user.id"], "user-id", False),
        (["user.*"], "user.name", True),
        (["*.token"], "api.token", True),
        (["a*c"], "abbc", True),
        (["a*c"], "abcd", False),
        (["*"], "any\nthing", True),
        (["(a)"], "(a)", True),
        (["x", "tab\t*"], "tab\tbed", True),
    ],
)
def test_keys_are_exact_or_globs(keys: list[str], key: str, is_match: bool) -> None:
    """And the quick search finds them too."""
    rules = compile_rules((RuleConfig(keys=tuple(keys)),))
    assert [found.to_pylist() for _rule, found in rules.match_keys(pa.array([key]))] == ([[True]] if is_match else [])
    if is_match:
        assert rules.may_match(pa.array([b"\x0a" + key.encode() + b"\x12"], pa.binary())).to_pylist() == [True]


def test_patterns_without_a_bounded_search_decode_everything() -> None:
    """A quoted text is not taken apart."""
    assert drop_assertions(r"\Q^a\E") == ""
    assert compile_rules((RuleConfig(pattern=r"\Q^a\E"),)).search is None


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"pattern": "(a"}, "ingest.redaction.rules.0.pattern: got '(a', which should be a regular expression of RE2"),
        ({"pattern": r"(?=a)"}, "which should be a regular expression of RE2"),
        ({"pattern": r"(a)\1"}, "which should be a regular expression of RE2"),
        ({"pattern": "a*"}, "got 'a*', which should be a regular expression that does not match the empty text"),
        ({"pattern": "(?:a{1000}){1000}"}, "which should be a regular expression of RE2"),
        ({}, "should have either keys or a pattern"),
        ({"keys": ["a"], "pattern": "b"}, "should have either keys or a pattern"),
        (
            {"keys": ["a"], "action": "hash"},
            "ingest.redaction.salt: got ********, which should have at least 16 characters",
        ),
        ({"keys": ["a"], "action": "encrypt"}, "got 'encrypt', which should be 'drop', 'hash' or 'mask'"),
        ({"keys": [""]}, "ingest.redaction.rules.0.keys.0"),
        ({"keys": ["a"], "organizations": ["*"]}, "ingest.redaction.rules.0.organizations.0: got '*'"),
    ],
)
def test_a_bad_rule_is_refused_at_start(rule: dict[str, Any], words: str, tmp_path: Any) -> None:
    """With the key, the value and what was expected."""
    file = tmp_path / "neve.yaml"
    file.write_text(json.dumps({"ingest": {"redaction": {"rules": [rule]}}}))
    with pytest.raises(ConfigError) as caught:
        load_settings(str(file), {})
    assert words in caught.value.message


def test_the_salt_is_never_shown() -> None:
    """Neither in the representation nor as JSON."""
    settings = Settings.model_validate({"ingest": {"redaction": {"salt": "very secret salt"}}})
    assert "very secret" not in repr(settings) + settings.model_dump_json()
    assert isinstance(settings.ingest.redaction, RedactionConfig)
