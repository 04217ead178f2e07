"""Words: one text or many, the same definition, and what an index holds beside them."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.tokenizer import is_word_character, tokenize, tokenize_for_index, tokenize_texts

DOTTED_I = "\u0130"  # Python makes two characters of it; DuckDB and Arrow make `i`
SETTLED = st.characters(max_codepoint=0x3000)
TEXTS = st.lists(st.none() | st.text() | st.text(SETTLED) | st.text(st.characters(max_codepoint=127)), max_size=8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", set()),
        (" -_- ", set()),
        ("GET /users/42?id=A-b", {"get", "users", "42", "id", "a", "b"}),
        ("Größe: 3 µm", {"größe", "3", "µm"}),
        ("x\u00b2 und e\u0301 \u0130z", {"x", "und", "e", "iz"}),
        ("snake_case\x00end", {"snake", "case", "end"}),
    ],
)
def test_words_of_a_text(text: str, words: set[str]) -> None:
    """Everything that is neither letter nor digit parts them."""
    assert tokenize(text) == words


@pytest.mark.slow
@given(TEXTS)
def test_many_texts_have_the_words_of_each(texts: list[str | None]) -> None:
    """Nothing is lost and nothing is made up, however the array is cut."""
    expected = frozenset().union(*(tokenize(text) for text in texts if text is not None))
    found = tokenize_texts(pa.array(texts, pa.string())).to_pylist()
    assert sorted(found) == sorted(expected)
    padded = pa.array(["x y", *texts, "z"], pa.large_string())
    assert set(tokenize_texts(padded.slice(1, len(texts))).to_pylist()) == expected


@given(st.text() | st.text(SETTLED))
def test_words_are_those_of_a_plain_definition(text: str) -> None:
    """Character by character, as Python knows letters and digits."""
    words = "".join(character if is_word_character(character) else " " for character in text).split(" ")
    lowered = ("".join("i" if one == DOTTED_I else one.lower() for one in word) for word in words)
    assert tokenize(text) == {word for word in lowered if word}


@pytest.mark.slow
@given(TEXTS)
def test_an_index_holds_all_words_and_every_run_of_ascii(texts: list[str | None]) -> None:
    """An engine that knows fewer letters finds what it takes for a word."""
    array = pa.array(texts, pa.string())
    runs = {run.lower() for text in texts for run in re.findall("[A-Za-z0-9]+", text or "")}
    assert set(tokenize_for_index(array).to_pylist()) == set(tokenize_texts(array).to_pylist()) | runs
