"""Random queries as tuples, and their text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.traceql.plain_traces import KEYS, MS, NAMES, SERVICES, TEXTS, span_id

if TYPE_CHECKING:
    from collections.abc import Sequence

Node = tuple[Any, ...]
Typed = tuple[str, Any]  # a type and a value; ("nil", None)
STATUSES, KINDS = ("unset", "ok", "error"), ("unspecified", "internal", "server", "client", "producer", "consumer")
STRUCTURES = [mark + one for mark in ("", "!", "&") for one in (">", "<", ">>", "<<", "~")]
TEXT_INTRINSICS = ("name", "statusMessage", "rootName", "rootServiceName", "event:name", "instrumentation:name")
NUMBER_INTRINSICS = ("nestedSetLeft", "nestedSetRight", "nestedSetParent", "span:childCount")
DURATION_INTRINSICS = ("duration", "traceDuration", "event:timeSinceStart")


def write(node: Node | None) -> str:  # noqa: PLR0911  # one for each node
    """Return the text of a field."""
    match node:
        case ("const", value):
            return write_constant(value)
        case ("attribute", scope, name):
            return f"{scope}.{name}"
        case ("intrinsic", name):
            return str(name)
        case ("exists", inside, is_absent):
            return f"{wrap(inside)} {'=' if is_absent else '!='} nil"
        case ("not", inside):
            return f"!{wrap(inside)}"
        case ("minus", inside):
            return f"-{wrap(inside)}"
        case (symbol, left, right):
            return f"{wrap(left)} {symbol} {wrap(right)}"
    raise AssertionError(node)


def wrap(node: Node) -> str:
    """Return the text of a field as an operand."""
    return write(node) if node[0] in {"const", "attribute", "intrinsic", "not", "minus"} else f"({write(node)})"


def write_constant(value: Typed) -> str:  # noqa: PLR0911  # as above
    """Return the text of a constant."""
    match value:
        case ("string", text):
            return f'"{text}"'
        case ("bool", one):
            return "true" if one else "false"
        case ("duration", nanoseconds):
            return f"{nanoseconds // MS}ms"
        case ("status", code):
            return STATUSES[code]
        case ("kind", code):
            return KINDS[code]
        case ("float", number):
            return repr(float(number))
    return str(value[1])


def write_spansets(node: Node) -> str:
    """Return the text of an expression of spansets."""
    match node:
        case ("filter", condition):
            return f"{{ {write(condition)} }}"
        case ("pipeline", elements):
            return f"({write_pipeline(elements)})"
    symbol, left, right = node
    return f"({write_spansets(left)} {symbol} {write_spansets(right)})"


def write_pipeline(elements: Sequence[Node]) -> str:
    """Return the text of a pipeline."""
    found = []
    for element in elements:
        match element:
            case ("by", node):
                found.append(f"by({write(node)})")
            case ("coalesce",):
                found.append("coalesce()")
            case ("aggregate", name, node, symbol, number):
                found.append(f"{name}({'' if node is None else write(node)}) {symbol} {write_constant(number)}")
            case _:
                found.append(write_spansets(element))
    return " | ".join(found)


def attributes() -> st.SearchStrategy[Node]:
    """Return attributes of every scope."""
    scopes = st.sampled_from(("", "span", "resource", "event", "link", "instrumentation", "span"))
    return st.tuples(st.just("attribute"), scopes, st.sampled_from(KEYS))


def numbers() -> st.SearchStrategy[Node]:
    """Return constants that are numbers."""
    found = st.one_of(
        st.tuples(st.just("int"), st.integers(0, 5)),
        st.tuples(st.just("float"), st.integers(0, 8).map(lambda one: one / 4)),
        st.tuples(st.just("duration"), st.integers(0, 15).map(lambda one: one * MS)),
    )
    return st.tuples(st.just("const"), found)


def texts(choices: Sequence[str] = TEXTS) -> st.SearchStrategy[Node]:
    """Return constants that are texts."""
    return st.tuples(st.just("const"), st.tuples(st.just("string"), st.sampled_from(tuple(choices))))


def number_fields() -> st.SearchStrategy[Node]:
    """Return fields that may be numbers."""
    plain = st.one_of(
        attributes(),
        attributes(),
        st.tuples(st.just("intrinsic"), st.sampled_from((*NUMBER_INTRINSICS, *DURATION_INTRINSICS))),
        numbers(),
    )
    computed = st.tuples(st.sampled_from("+-*/%^"), plain, plain)
    return st.one_of(plain, plain, computed, st.tuples(st.just("minus"), plain))


def comparisons() -> st.SearchStrategy[Node]:
    """Return comparisons of operands that fit each other."""
    compared = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
    equality = st.sampled_from(("=", "!="))
    regexes = st.tuples(
        st.just("const"), st.tuples(st.just("string"), st.sampled_from(("x.*", "", ".", "[xy]+", "g.t")))
    )
    text_fields = st.one_of(attributes(), st.tuples(st.just("intrinsic"), st.sampled_from(TEXT_INTRINSICS)))
    codes = {"status": st.integers(0, 2), "kind": st.integers(0, 5)}
    return st.one_of(
        st.tuples(compared, number_fields(), number_fields()),
        st.tuples(compared, text_fields, texts((*TEXTS, *NAMES, *SERVICES, "shop"))),
        st.tuples(compared, texts(), text_fields),
        st.tuples(st.sampled_from(("=~", "!~")), text_fields, regexes),
        st.tuples(equality, attributes(), st.sampled_from([("const", ("bool", True)), ("const", ("bool", False))])),
        st.tuples(compared, attributes(), attributes()),
        *(
            st.tuples(
                equality,
                st.just(("intrinsic", name)),
                st.tuples(st.just("const"), st.tuples(st.just(name), codes[name])),
            )
            for name in codes
        ),
        st.tuples(
            equality,
            st.sampled_from([("intrinsic", "span:id"), ("intrinsic", "span:parentID"), ("intrinsic", "link:spanID")]),
            texts([span_id(one).hex() for one in (1, 2)] + [""]),
        ),
        st.tuples(equality, st.just(("attribute", "resource", "service.name")), texts(SERVICES)),
        st.tuples(
            st.sampled_from(("<", "<=", "=", ">")),
            st.just(("intrinsic", "nestedSetParent")),
            st.sampled_from([("const", ("int", 0)), ("minus", ("const", ("int", 1))), ("const", ("float", 0.0))]),
        ),
        st.tuples(st.just("exists"), attributes(), st.booleans()),
        attributes(),
    )


def conditions() -> st.SearchStrategy[Node]:
    """Return conditions of filters."""
    return st.recursive(
        comparisons(),
        lambda inside: st.one_of(
            st.tuples(st.sampled_from(("&&", "||")), inside, inside), st.tuples(st.just("not"), inside)
        ),
        max_leaves=3,
    )


def filters() -> st.SearchStrategy[Node]:
    """Return filters."""
    everything: Node = ("filter", ("const", ("bool", True)))
    return st.one_of(st.tuples(st.just("filter"), conditions()), st.just(everything))


def aggregates() -> st.SearchStrategy[Node]:
    """Return filters by an aggregate."""
    fields = st.one_of(attributes(), st.just(("intrinsic", "duration")), st.just(("intrinsic", "nestedSetParent")))
    compared = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
    constants = numbers().map(lambda one: one[1])
    return st.one_of(
        st.tuples(st.just("aggregate"), st.just("count"), st.none(), compared, constants),
        st.tuples(st.just("aggregate"), st.sampled_from(("avg", "min", "max", "sum")), fields, compared, constants),
    )


def spansets() -> st.SearchStrategy[Node]:
    """Return filters, operators between them, and pipelines in parentheses."""
    pipelines = st.tuples(st.just("pipeline"), st.lists(st.one_of(filters(), aggregates()), min_size=1, max_size=2))
    return st.recursive(
        st.one_of(filters(), filters(), filters(), pipelines),
        lambda inside: st.tuples(st.sampled_from(("&&", "||", *STRUCTURES, *STRUCTURES)), inside, inside),
        max_leaves=3,
    )


def pipelines() -> st.SearchStrategy[list[Node]]:
    """Return whole pipelines."""
    groups = st.tuples(
        st.just("by"),
        st.one_of(
            attributes(), st.tuples(st.just("intrinsic"), st.sampled_from(("name", "kind", "rootName", "duration")))
        ),
    )
    operators = spansets().filter(lambda one: one[0] != "pipeline")  # parentheses stand first, or beside operators
    later = st.one_of(filters(), aggregates(), groups, st.just(("coalesce",)), operators)
    return st.tuples(spansets(), st.lists(later, max_size=2)).map(lambda parts: [parts[0], *parts[1]])
