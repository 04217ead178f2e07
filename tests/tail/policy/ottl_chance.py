"""Conditions of OTTL made by chance."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import strategies as st

from tests.tail.policy.ottl_plain import EVENT_PATHS, OWN, PATHS, Expression, attribute, made, short, written
from tests.tail.policy.ottl_values import OPERATORS, compare, has_prefix, is_match, length, reckon
from tests.tail.policy.strategies import KEYS, WORDS

PATTERNS = ("a", "^a", "b$", "^$", ".*", "5", r"\\d", "true", "e", "[.]", "(?i)A", r"\\[", "^6162", "0{3}")
WITHIN: tuple[tuple[str | int, ...], ...] = ((), (), (), ("a",), (0,), (1,), ("b/~",), ("", 0))


@st.composite
def paths(draw: st.DrawFn, context: str) -> Expression:
    """A path, with its context or, where that is the one it stands in, without."""
    known = {**PATHS, **(EVENT_PATHS if context == "spanevent" else {})}
    if draw(st.booleans()):
        text = draw(st.sampled_from(sorted(known)))
        found = Expression(text, known[text])
    else:
        places = ("span", "resource", "spanevent") if context == "spanevent" else ("span", "resource")
        more = draw(st.sampled_from(WITHIN))
        found = attribute(draw(st.sampled_from(places)), draw(st.sampled_from(KEYS)), more)
    return Expression(found.text.removeprefix(OWN[context]), found.get) if draw(st.booleans()) else found


literals = st.builds(
    written,
    st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from((0, 1, 5, 2, 400, -1, 2**53 + 1, 2**63 - 1, 1.5, 5.0, 0.0, -1.5, 9007199254740992.0)),
        st.booleans(),
        st.none(),
        st.sampled_from((b"a", b"ab", b"\x00")),
    ),
)


def is_plain(expression: Expression) -> bool:
    """Whether it is neither an id nor a time, which no function takes, nor written down."""
    return not re.search(r"_id$|_time$|^time$|\.time$|ID\(|Duration|^S", expression.text)


TYPES = {"IsString": str, "IsInt": int, "IsDouble": float, "IsBool": bool, "IsMap": dict, "IsList": list}


@st.composite
def functions(draw: st.DrawFn, context: str) -> Expression:
    """A function that makes a boolean."""
    name = draw(st.sampled_from(("IsMatch", "HasPrefix", "IsRootSpan", *TYPES)))
    if name == "IsRootSpan" and context == "span":
        return Expression("IsRootSpan()", lambda span, _event: span.parent == b"")
    target = draw(paths(context).filter(is_plain))
    if name in TYPES:
        return made(name, lambda value: type(value) is TYPES[name], target)
    if name == "HasPrefix" and re.search("attributes|name|state", target.text):
        return made(name, has_prefix, target, written(draw(st.sampled_from(("", "a", "5")))))
    pattern = draw(st.sampled_from(PATTERNS))
    return made("IsMatch", is_match, target, Expression(f'"{pattern}"', lambda _s, _e: pattern.replace("\\\\", "\\")))


@st.composite
def sums(draw: st.DrawFn) -> Expression:
    """Numbers, or times, put together."""
    if draw(st.booleans()):
        symbol, left, right = draw(st.sampled_from("+-*/")), draw(numbers()), draw(numbers())
    else:
        times = ("span.start_time", "span.end_time", 'Duration("3ns")')
        first, second = draw(st.sampled_from(times[:2])), draw(st.sampled_from(times))
        symbol, left, right = "-", Expression(first, PATHS[first]), Expression(second, PATHS[second])
    text = f"{left.text} {symbol} {right.text}"
    return Expression(
        f"({text})" if draw(st.booleans()) else text,
        lambda span, event: reckon(symbol, left.get(span, event), right.get(span, event)),
    )


@st.composite
def numbers(draw: st.DrawFn) -> Expression:
    """Something to reckon with; attributes often are no numbers."""
    which = draw(st.integers(0, 3))
    if which == 0:
        return written(draw(st.sampled_from((0, 1, 5, -1, 1.5))))
    if which == 1:
        path = draw(st.sampled_from(("span.kind", "span.end_time_unix_nano")))
        return Expression(path, PATHS[path])
    found = attribute("span", draw(st.sampled_from(KEYS[:3])), ())
    return found if which == 2 else made("Len", length, found)


@st.composite
def comparisons(draw: st.DrawFn, context: str) -> Expression:
    """Two values, compared."""
    values = st.one_of(paths(context), paths(context), literals, literals, sums(), functions(context))
    left, symbol, right = draw(values), draw(st.sampled_from(sorted(OPERATORS))), draw(values)
    return Expression(
        f"{left.text} {symbol} {right.text}",
        lambda span, event: compare(left.get(span, event), right.get(span, event), symbol),
    )


@st.composite
def conditions(draw: st.DrawFn, context: str, depth: int = 2) -> Expression:
    """Whole conditions, with as few parentheses as they need; `and` binds closer than `or`, and `not` closest."""
    terms = []
    for _ in range(draw(st.integers(1, 2))):
        parts = [draw(atoms(context, depth)) for _ in range(draw(st.integers(1, 2)))]
        terms.append(put_together("and", parts))
    return put_together("or", terms)


@st.composite
def atoms(draw: st.DrawFn, context: str, depth: int) -> Expression:
    """A comparison, a function, true or false, or a condition in parentheses; or the opposite of one."""
    which = draw(st.integers(0, 5))
    if which == 0:
        found = (
            replace(written(True), constant=True) if draw(st.booleans()) else replace(written(False), constant=False)
        )
    elif which == 1:
        found = draw(functions(context))
    elif which == 2 and depth:
        inner = draw(conditions(context, depth - 1))
        found = replace(inner, text=f"({inner.text})")
    else:
        found = draw(comparisons(context))
    if draw(st.integers(0, 3)):
        return found
    constant = None if found.constant is None else not found.constant
    return Expression(f"not {found.text}", lambda span, event: not found.get(span, event), constant)


def put_together(word: str, parts: list[Expression]) -> Expression:
    """Parts with `and` or `or` between them."""
    if len(parts) == 1:
        return parts[0]
    text, decides = f" {word} ".join(one.text for one in parts), word == "or"
    left = [part for part in parts if part.constant is None]
    constant = decides if any(part.constant == decides for part in parts) else None if left else not decides
    return Expression(text, lambda span, event: short(left, span, event, decides), constant)
