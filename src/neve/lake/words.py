"""Words of a text: the longest runs of letters and decimal digits, in lower case, each character by itself.

This is the one definition. What looks for a word in a text and what makes an index of texts must mean the same.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DOTTED_I = "\u0130"  # the one character that Python makes two of in lower case; DuckDB and Arrow make `i` of it
FIRST_BEYOND_ASCII = 128
SPACE = ord(" ")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")


def _lower_or_space(byte: int) -> int:
    character = chr(byte)
    return ord(character.lower()) if byte < FIRST_BEYOND_ASCII and character.isalnum() else SPACE


_LOWER = bytes(map(_lower_or_space, range(256)))


def is_word_character(character: str) -> bool:
    """Whether a character is a letter or a decimal digit."""
    category = unicodedata.category(character)
    return category[0] == "L" or category == "Nd"


def words_of(text: str) -> frozenset[str]:
    """The distinct words of one text.

    >>> sorted(words_of("GET /Users/42: pool_size exhausted"))
    ['42', 'exhausted', 'get', 'pool', 'size', 'users']
    """
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower()))
    runs = groupby(text, key=is_word_character)
    return frozenset(lower("".join(run)) for is_word, run in runs if is_word)


def lower(text: str) -> str:
    """A text in lower case, each character by itself, whatever stands around it; a final sigma is no other."""
    if text.isascii():
        return text.lower()
    return "".join("i" if character == DOTTED_I else character.lower() for character in text)


def words_in(texts: pa.Array) -> pa.Array:
    """The distinct words of many texts."""
    plain, others = _by_alphabet(texts)
    return _distinct([_ascii_words(plain), _unicode_words(others)])


def indexed_words(texts: pa.Array) -> pa.Array:
    """The distinct words of many texts, and the runs of ASCII letters and digits beside other characters.

    Engines know the letters of different years. One that takes a new letter for none sees a word beside it, and must
    find that in an index, too.
    """
    _plain, others = _by_alphabet(texts)
    return _distinct([_ascii_words(texts.cast(pa.large_string()).drop_null()), _unicode_words(others)])


def _by_alphabet(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Texts that are all ASCII, which nearly all are and which cost a third; and the others."""
    known = texts.cast(pa.large_string()).drop_null()
    is_ascii = pc.string_is_ascii(known)
    if pc.all(is_ascii).as_py() is not False:
        return known, known.slice(0, 0)
    return known.filter(is_ascii), known.filter(pc.invert(is_ascii))


def _ascii_words(texts: pa.LargeStringArray) -> pa.Array:
    """Words of ASCII characters; any other character is taken for a space."""
    if not len(texts):
        return texts
    _validity, places, letters = texts.buffers()
    offsets = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    spaced = letters.slice(first, last - first).to_pybytes().translate(_LOWER) if letters is not None else b""
    return _split(pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets - first), pa.py_buffer(spaced)))


def _unicode_words(texts: pa.LargeStringArray) -> pa.Array:
    """Words of any letters; they are found first, as a new letter may become an old one in lower case."""
    if not len(texts):
        return texts
    return pc.utf8_lower(_split(pc.replace_substring_regex(texts, _between_words(), " ")))


@cache
def _between_words() -> str:
    """What stands between words, as ranges: the libraries know the letters of different years."""
    numbers = (number for number in range(sys.maxunicode + 1) if is_word_character(chr(number)))
    ranges = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        ranges.append(rf"\x{{{members[0]:x}}}-\x{{{members[-1]:x}}}")
    return f"[^{''.join(ranges)}]+"


def _split(texts: pa.LargeStringArray) -> pa.Array:
    """What stands between spaces; a space at an end leaves an empty text, which is no word."""
    found = pc.list_flatten(pc.ascii_split_whitespace(texts)).unique()
    return found.filter(pc.not_equal(found, ""))


def _distinct(parts: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts).unique()
