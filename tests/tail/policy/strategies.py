"""Spans made by chance: few keys and few values, so that policies and spans often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.tail.policy.rows import Event, Span

KEYS = ("a", "b", "it's", 'q"\\', "\u00e9\u4e16", "service.name", "")
WORDS = (
    "",
    "a",
    "b",
    "abc",
    "5",
    "-1",
    "true",
    "0",
    "1.5",
    "it's",
    "a\\b",
    "\u00e9",
    "a\x00b",
    "a%_",
    "\n",
    "{}",
    "[1]",
)

words = st.sampled_from(WORDS)
whole = st.sampled_from((0, 1, -1, 5, 400, 2**53 + 1, 2**63 - 1, -(2**63)))
floats = st.sampled_from(
    (0.0, -0.0, 1.0, 5.0, 1.5, -1.0, 1e-7, 0.00012, 1e16, 1e21, 2.0**53, float("nan"), float("inf"))
)
lists = st.lists(st.one_of(words, st.integers(-5, 5), st.booleans(), st.just(1.5), st.none()), max_size=3)
maps = st.dictionaries(
    st.sampled_from(("a", "b/~", "")), st.one_of(words, st.integers(-5, 5), lists, st.none()), max_size=2
)
values = st.one_of(words, whole, floats, st.booleans(), st.binary(max_size=2), lists, maps, st.none())
attributes = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
states = st.one_of(
    st.sampled_from(
        ("", "a=b", "a=b,c=d", " a=b\t,b=abc ", "a=b,a=c", "A=b", "a=", "a", ",a=5,", "0@a=b", "a= b", "a=b c")
    ),
    st.lists(
        st.sampled_from(("a=b", "b=abc", "c=1", "\td=5 ", "", "x@y=1", "x@=1", "e=\u00e9", "f=a\tb")), max_size=4
    ).map(",".join),
)
events = st.builds(Event, name=words, attributes=attributes, time=st.integers(0, 10))
spans = st.builds(
    Span,
    attributes=attributes,
    resource=attributes,
    name=words,
    kind=st.integers(0, 6),
    status=st.integers(0, 2),
    message=words,
    start=st.integers(1, 5),
    end=st.integers(0, 10),
    state=states,
    flags=st.sampled_from((0, 1, 256, 257, 3)),
    scope=words,
    version=words,
    trace_id=st.sampled_from((bytes(15) + b"\x01", b"\xab" * 16)),
    span_id=st.sampled_from((bytes(7) + b"\x01", b"\xab" * 8)),
    parent=st.sampled_from((b"", b"\xab" * 8)),
    events=st.lists(events, max_size=2).map(tuple),
)
several = st.lists(spans, min_size=1, max_size=8)
# Spans that have nothing but attributes.
bare = st.lists(st.builds(Span, attributes=attributes, resource=attributes), min_size=1, max_size=6)
