"""Words: the same in Python, in Arrow and, as far as conditions need it, in DuckDB."""

import sys

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.tokenizer import is_word_character, to_lower_case, tokenize, tokenize_texts

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("aA1 ,-_\u0130\u03a3\u212a\u00df"))


def list_characters() -> list[str]:
    """Return every character that can be encoded."""
    return [chr(number) for number in range(1, sys.maxunicode + 1) if not 0xD800 <= number < 0xE000]


@pytest.mark.slow
@given(st.lists(st.none() | texts))
def test_both_ways_find_the_same_words(some: list[str | None]) -> None:
    """In an array, and in each text by itself."""
    expected = frozenset[str]().union(*(tokenize(text) for text in some if text is not None))
    found = tokenize_texts(pa.array(some, pa.string())).to_pylist()
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.slow
def test_every_character_is_the_same_both_ways() -> None:
    """Also those that only newer versions of Unicode know."""
    characters = list_characters()
    found = set(tokenize_texts(pa.array([f" {character} " for character in characters])).to_pylist())
    assert found == {to_lower_case(character) for character in characters if is_word_character(character)}


@pytest.mark.long
def test_characters_of_words_are_such_for_duckdb() -> None:
    """Else has_term would find a word where an index sees the middle of one."""
    table = pa.table({"c": list_characters()})
    sql = r"SELECT c, lower(c), regexp_matches(c, '^[\p{L}\p{Nd}]$') FROM table_"
    connection = duckdb.connect(config={})
    connection.register("table_", table)
    for character, small, is_word in connection.execute(sql).fetchall():
        assert small == to_lower_case(character)
        assert is_word or not is_word_character(character)


@given(texts, texts, texts)
def test_a_word_between_others_is_found(before: str, word: str, after: str) -> None:
    """Whatever stands around it, if that is no part of a word."""
    assert tokenize(word) <= tokenize(f"{before} {word}-{after}")
