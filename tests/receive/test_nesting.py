"""The depth of JSON is what a parser would find."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.receive import nesting
from neve.receive.nesting import depth

documents = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=3),
    max_leaves=20,
)


def real_depth(value: Any) -> int:
    """What a person would count."""
    if isinstance(value, dict):
        return 1 + max(map(real_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(real_depth, value), default=0)
    return 0


@given(document=documents)
def test_depth_is_that_of_the_document(document: Any) -> None:
    """Whatever stands in its strings."""
    assert depth(json.dumps(document).encode()) == real_depth(document)
    assert depth(json.dumps(document, indent=1).encode()) == real_depth(document)


@given(document=documents, size=st.integers(1, 7))
def test_chunks_do_not_matter(document: Any, size: int) -> None:
    """What is carried from one chunk to the next is enough."""
    text = json.dumps(document).encode()
    whole = depth(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "CHUNK", size)
        assert depth(text) == whole


@pytest.mark.parametrize(("text", "expected"), [(b"", 0), (b"]]]]", 0), (b"[" * 100_000, 100_000), (b'"[[[', 0)])
def test_what_is_no_json_has_a_depth_too(text: bytes, expected: int) -> None:
    """It is asked before anyone parses."""
    assert depth(text) == expected
