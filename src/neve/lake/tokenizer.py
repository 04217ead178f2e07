"""Tokenizer of full-text search: maximal runs of letters and decimal digits, in lower case character by character.

Search and index must use the same definition of a word, so this is the only one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby

import numpy as np
import pyarrow as pa

DOTTED_I = "\u0130"  # Python's lower case of it has two characters; DuckDB and Arrow return `i`
FIRST_BEYOND_ASCII = 128
SPACE = ord(" ")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")


def _lower_or_space(byte: int) -> int:
    character = chr(byte)
    return ord(character.lower()) if byte < FIRST_BEYOND_ASCII and character.isalnum() else SPACE


_LOWER = bytes(map(_lower_or_space, range(256)))


def is_word_character(character: str) -> bool:
    """Return whether a character is a letter or a decimal digit."""
    category = unicodedata.category(character)
    return category[0] == "L" or category == "Nd"


def tokenize(text: str) -> frozenset[str]:
    """Return the distinct words of one text.

    >>> sorted(tokenize("GET /Users/42: pool_size exhausted"))
    ['42', 'exhausted', 'get', 'pool', 'size', 'users']
    """
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower()))
    runs = groupby(text, key=is_word_character)
    return frozenset(to_lower_case("".join(run)) for is_word, run in runs if is_word)


def to_lower_case(text: str) -> str:
    """Return a text in lower case, each character independent of its neighbours; a final sigma is not special."""
    if text.isascii():
        return text.lower()
    return "".join("i" if character == DOTTED_I else character.lower() for character in text)


def tokenize_texts(texts: pa.Array) -> pa.Array:
    """Return the distinct words of many texts."""
    plain, others = _split_by_alphabet(texts)
    return _merge_distinct([_tokenize_ascii(plain), _tokenize_unicode(others)])


def tokenize_for_index(texts: pa.Array) -> pa.Array:
    """Return the distinct words of many texts, and the runs of ASCII letters and digits beside other characters.

    Engines have different Unicode versions. An engine that does not recognise a new letter sees a word beside it, and
    must find that word in an index, too.
    """
    _plain, others = _split_by_alphabet(texts)
    return _merge_distinct([_tokenize_ascii(texts.cast(pa.large_string()).drop_null()), _tokenize_unicode(others)])


def _split_by_alphabet(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Split texts into those of ASCII only, which are nearly all and cost a third, and the others."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 50 CPU ms, for indexing alone

    known = texts.cast(pa.large_string()).drop_null()
    is_ascii = pc.string_is_ascii(known)
    if pc.all(is_ascii).as_py() is not False:
        return known, known.slice(0, 0)
    return known.filter(is_ascii), known.filter(pc.invert(is_ascii))


def _tokenize_ascii(texts: pa.LargeStringArray) -> pa.Array:
    """Return the words of ASCII characters. Any other character counts as a space."""
    if not len(texts):
        return texts
    _validity, places, letters = texts.buffers()
    offsets = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    spaced = letters.slice(first, last - first).to_pybytes().translate(_LOWER) if letters is not None else b""
    return _split_at_spaces(
        pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets - first), pa.py_buffer(spaced))
    )


def _tokenize_unicode(texts: pa.LargeStringArray) -> pa.Array:
    """Return the words of any letters.

    Words are found before lower-casing, which may turn a new letter into an old one.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if not len(texts):
        return texts
    return pc.utf8_lower(_split_at_spaces(pc.replace_substring_regex(texts, _find_separators(), " ")))


@cache
def _find_separators() -> str:
    """Return the separators of words as ranges, because the libraries have different Unicode versions."""
    numbers = (number for number in range(sys.maxunicode + 1) if is_word_character(chr(number)))
    ranges = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        ranges.append(rf"\x{{{members[0]:x}}}-\x{{{members[-1]:x}}}")
    return f"[^{''.join(ranges)}]+"


def _split_at_spaces(texts: pa.LargeStringArray) -> pa.Array:
    """Split at spaces. A space at either end leaves an empty text, which is not a word."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    found = pc.list_flatten(pc.ascii_split_whitespace(texts)).unique()
    return found.filter(pc.not_equal(found, ""))


def _merge_distinct(parts: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts).unique()
