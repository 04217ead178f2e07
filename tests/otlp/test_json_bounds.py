"""Depth and objects of JSON are what a parser would find."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.otlp import json as json_bounds
from neve.otlp.bounds import Bounds, TooMany
from neve.otlp.json import check_json_bounds, measure_json

documents = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=3),
    max_leaves=20,
)


def depth(text: bytes) -> int:
    """How deep a text is nested."""
    return measure_json(text).depth


def real_depth(value: Any) -> int:
    """What a person would count."""
    if isinstance(value, dict):
        return 1 + max(map(real_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(real_depth, value), default=0)
    return 0


def real_objects(value: Any, depth: int = 0) -> list[int]:
    """The depths of all objects, as a person would count."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [depth + 1] if isinstance(value, dict) else []
    return own + [found for item in inner for found in real_objects(item, depth + 1)]


@given(document=documents)
def test_objects_are_counted_by_depth(document: Any) -> None:
    """And never more values than are counted."""
    shape, found = measure_json(json.dumps(document).encode()), real_objects(document)
    assert list(shape.objects) == [found.count(depth) for depth in range(len(shape.objects))]
    assert shape.values >= len(found)


def logs_json(resources: str, scopes: str = "") -> bytes:
    """A document with some resources, one of which has some scopes."""
    return f'{{"resourceLogs":[{resources}{{"scopeLogs":[{scopes}{{}}]}}]}}'.encode()


@pytest.mark.parametrize("text", [logs_json("{}," * 9), logs_json("", "{}," * 9), logs_json('{"a":1},' * 4, "{}," * 5)])
def test_groups_are_bounded_wherever_they_stand(text: bytes) -> None:
    """Resources and scopes count together, the empty ones too."""
    shape = measure_json(text)
    check_json_bounds(shape, Bounds(groups=11))
    with pytest.raises(TooMany, match="more than 10 groups"):
        check_json_bounds(shape, Bounds(groups=10))
    with pytest.raises(TooMany, match="more than 5 attributes"):
        check_json_bounds(shape, Bounds(records=5, attributes=5))


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
        patch.setattr(json_bounds, "CHUNK", size)
        assert depth(text) == whole


@pytest.mark.parametrize(("text", "expected"), [(b"", 0), (b"]]]]", 0), (b"[" * 100_000, 100_000), (b'"[[[', 0)])
def test_what_is_no_json_has_a_depth_too(text: bytes, expected: int) -> None:
    """It is asked before anyone parses."""
    assert depth(text) == expected
