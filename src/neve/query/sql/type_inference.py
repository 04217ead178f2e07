"""Infer the kind of value of each expression without an engine, and check kinds where engines differ.

Kinds are words: text, int, float, decimal, bool, timestamptz, timestamp, date, blob, interval, null, map (of text),
struct, list<…> with the kind of the elements, and "" where it is unknown. Spark gives the same result as DuckDB only
for arguments of some kinds. For others `NotPortable` is raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from neve.predicate.names import fold
from neve.query.sql.references import find_lake_tables
from neve.query.sql.syntax_rules import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable


class NotPortable(Exception):
    """Raised when Spark would give another result, or none. The message names the part of the query."""


SAME = "same"  # as its first argument
ANY = "any"  # as its arguments, which have the same kind
GIVES = {
    "int": """bit_count cardinality count count_if count_star countif date_diff date_sub datediff datesub day dayofmonth
        dayofweek dayofyear dense_rank epoch_ns epoch_us grouping grouping_id hour instr isodow len length
        list_position list_indexof array_position array_length levenshtein minute month ntile octet_length position
        quarter rank row_number second sign strlen strpos week weekday weekofyear year char_length character_length""",
    "float": """avg mean median stddev stddev_pop stddev_samp var_pop var_samp variance covar_pop covar_samp cbrt cos
        cume_dist degrees epoch exp fsum kahan_sum favg ln log log10 log2 percent_rank pi pow power quantile_cont
        radians random sin sqrt tan""",
    "text": """base64 to_base64 concat concat_ws dayname hex to_hex lower upper lcase ucase left right lpad rpad ltrim
        rtrim md5 monthname regexp_extract regexp_replace repeat replace reverse sha1 sha256 split_part strftime
        string_agg group_concat listagg substr substring translate trim array_to_string""",
    "bool": """bool_and bool_or contains ends_with has_phrase has_term isfinite isinf isnan list_contains list_has
        array_contains array_has map_contains prefix regexp_full_match regexp_matches starts_with suffix""",
    "timestamptz": "to_timestamp now current_timestamp get_current_timestamp transaction_timestamp make_timestamptz",
    "timestamp": "make_timestamp strptime",
    "date": "current_date today last_day make_date",
    "blob": "unhex from_hex encode from_base64",
    "list<text>": "string_split str_split split string_to_array map_keys map_values regexp_extract_all",
    SAME: """abs any_value arbitrary arg_max arg_min argmax argmin max_by min_by first last first_value last_value lag
        lead nth_value max min mode nullif round list_filter list_sort array_sort list_reverse array_reverse
        quantile_disc bit_and bit_or bit_xor""",
    ANY: "coalesce ifnull greatest least",
}
FUNCTION_KINDS = {name: kind for kind, names in GIVES.items() for name in names.split()}


def name_of(node: exp.Expr) -> str:
    """Return the SQL name of a function, in lower case."""
    return fold(node.name) if isinstance(node, exp.Anonymous) else FUNCTIONS.get(type(node), "")


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a function, for any kind of node. For `count(DISTINCT x)` it is x."""
    if isinstance(node, exp.Anonymous):
        arguments = list(node.expressions)
    else:
        parts = (node.args.get(key) for key in node.arg_types)
        arguments = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    found = [item for item in arguments if isinstance(item, exp.Expr)]
    return [*found[0].expressions, *found[1:]] if found and isinstance(found[0], exp.Distinct) else found


def kind_of_call(node: exp.Expr, kind: Callable[[exp.Expr], str]) -> str:
    """Return the kind of a function's result, from the kinds of its arguments."""
    name = name_of(node)
    kinds = [kind(argument) for argument in arguments_of(node)]
    first = kinds[0] if kinds else ""
    if name in _BY_ARGUMENTS:
        return _BY_ARGUMENTS[name](kinds, node)
    gives = FUNCTION_KINDS.get(name, "")
    return _common_argument_kind(kinds) if gives == ANY else first if gives == SAME else gives


def _truncation_kind(kinds: list[str], node: exp.Expr) -> str:
    times = [of for of in kinds if of in {"timestamptz", "timestamp", "date"}]
    return "timestamp" if times[:1] == ["date"] and name_of(node) != "time_bucket" else (times or [""])[0]


def _date_part_kind(_: list[str], node: exp.Expr) -> str:
    part = fold(arguments_of(node)[0].name) if arguments_of(node) else ""
    return "float" if part in {"epoch", "julian"} else "int"


def _rounding_kind(kinds: list[str], _: exp.Expr) -> str:
    return "float" if kinds[:1] in (["int"], ["float"]) else (kinds or [""])[0]


def _list_element_kind(kinds: list[str], _: exp.Expr) -> str:
    return kinds[0][5:-1] if kinds and kinds[0].startswith("list<") else ""


def _common_argument_kind(kinds: list[str]) -> str:
    left = {kind for kind in kinds if kind != "null"}
    numbers = [kind for kind in ("float", "decimal", "int") if kind in left]
    if left and left == set(numbers):
        return numbers[0]
    return left.pop() if len(left) == 1 else ""


_BY_ARGUMENTS: dict[str, Callable[[list[str], exp.Expr], str]] = {
    **dict.fromkeys(("date_trunc", "datetrunc", "time_bucket"), _truncation_kind),
    "sum": lambda kinds, _: kinds[0] if kinds and kinds[0] in {"int", "float", "decimal"} else "",
    "epoch_ms": lambda kinds, _: "timestamp" if kinds[:1] == ["int"] else "int",
    **dict.fromkeys(("extract", "date_part", "datepart"), _date_part_kind),
    **dict.fromkeys(("floor", "ceil", "ceiling", "trunc"), _rounding_kind),
    **dict.fromkeys(("list_extract", "array_extract", "list_element", "list_min", "list_max"), _list_element_kind),
}


# Kinds are words: text, int, float, decimal, bool, timestamptz, timestamp, date, blob, interval, null, map (of text),
# struct, list<…> with the kind of the elements, and "" if it is unknown.

TableKinds = Mapping[str, str]
KIND = "kind"
ROUNDS = 5  # an alias may refer to an alias that refers to an alias
NUMBERS = ("int", "decimal", "float")
TIMES = ("timestamptz", "timestamp", "date")


def kinds_of(schema: pa.Schema) -> TableKinds:
    """Return the kind of each column of a table."""
    return {fold(field.name): kind_of(field.type) for field in schema}


def kind_of(kind: pa.DataType) -> str:
    """Return the kind of an Arrow type.

    >>> kind_of(pa.int32()), kind_of(pa.map_(pa.string(), pa.string())), kind_of(pa.list_(pa.float64()))
    ('int', 'map', 'list<float>')
    """
    if pa.types.is_map(kind):
        return "map" if kind_of(kind.item_type) == "text" else ""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{kind_of(kind.value_type)}>"
    return next((name for name, is_one in _ARROW_KINDS if is_one(kind)), "")


def annotate(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> None:
    """Store the kind of each node in its `meta`.

    A name refers to a column of a table that is read, or to an expression with this alias anywhere in the statement. If
    their kinds differ, the kind is unknown.
    """
    nodes = list(reversed(list(tree.walk())))
    names = _lake_names(tree, columns)
    several = sum(isinstance(node, exp.Select) for node in nodes) > 1
    before: dict[str, str] = {}
    for _ in range(ROUNDS):
        found = _infer_once(nodes, {**names, **before})
        after = _merge_kinds([names, found]) if several else {}
        if after == before:
            return
        before = after


def kind(node: exp.Expr | None) -> str:
    """Return the kind that was inferred for a node."""
    return str(node.meta.get(KIND, "")) if node is not None else ""


def element_of(kind: str) -> str:
    """Return the kind of a list's elements.

    >>> element_of("list<int>"), element_of("text")
    ('int', '')
    """
    return kind[5:-1] if kind.startswith("list<") else ""


def common_kind(kinds: Iterable[str]) -> str:
    """Return the kind of a value that may have any of these kinds.

    >>> common_kind(["int", "null", "float"]), common_kind(["text", "int"])
    ('float', '')
    """
    left = {kind for kind in kinds if kind != "null"}
    if left and left <= set(NUMBERS):
        return max(left, key=NUMBERS.index)
    return left.pop() if len(left) == 1 else "" if left else "null"


def _lake_names(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> dict[str, str]:
    return _merge_kinds([columns.get(table.name, {}) for table in find_lake_tables(tree).values()])


def _merge_kinds(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    kinds: dict[str, set[str]] = defaultdict(set)
    for table in tables:
        for name, of in table.items():
            kinds[name].add(of)
    return {name: of.pop() if len(of) == 1 else "" for name, of in kinds.items()}


def _infer_once(nodes: list[exp.Expr], names: Mapping[str, str]) -> dict[str, str]:
    """Infer the kinds of all nodes, children before parents. Return the kinds of the aliases."""
    given: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        node.meta[KIND] = _infer_kind(node, names)
        if isinstance(node, exp.Alias):
            given[fold(node.alias)].add(kind(node.this))
        if isinstance(node, exp.TableAlias):
            for column in node.columns:
                given[fold(column.name)].add("")
        if isinstance(node, exp.Lambda):
            for argument in node.expressions:
                given[fold(argument.name)].add("")
    return {name: of.pop() if len(of) == 1 else "" for name, of in given.items()}


def _infer_kind(node: exp.Expr, names: Mapping[str, str]) -> str:
    if isinstance(node, exp.Column):
        return names.get(fold(node.name), "")
    rule = next((_RULES[base] for base in type(node).__mro__ if base in _RULES), None)
    return rule(node) if rule else ""


def _literal(node: exp.Expr) -> str:
    if node.is_string:
        return "text"
    said = fold(str(node.this))
    return "float" if "e" in said else "decimal" if "." in said else "int"


def _arithmetic(node: exp.Expr) -> str:
    left, right = kind(node.this), kind(node.args.get("expression"))
    if {left, right} <= set(NUMBERS):
        return common_kind([left, right])
    if right == "interval" and left in {"timestamptz", "timestamp"}:
        return left
    return right if left == "interval" and right in {"timestamptz", "timestamp"} else ""


def _bracket(node: exp.Expr) -> str:
    of = kind(node.this)
    if of == "map":
        return "text"
    return "" if any(isinstance(item, exp.Slice) for item in node.expressions) else element_of(of)


def _case(node: exp.Expr) -> str:
    branches = [branch.args.get("true") for branch in node.args.get("ifs") or [node]]
    otherwise = node.args.get("default") or node.args.get("false")
    return common_kind(kind(branch) for branch in [*branches, *([otherwise] if otherwise else [])])


def _array(node: exp.Expr) -> str:
    return f"list<{common_kind(kind(item) for item in node.expressions)}>"


def _subquery(node: exp.Expr) -> str:
    query = node.this
    return kind(query.expressions[0]) if isinstance(query, exp.Select) and query.expressions else ""


def _operand_kind(node: exp.Expr) -> str:
    return kind(node.this)


_TYPE_KINDS = {
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "float"),
    **dict.fromkeys(("TEXT", "VARCHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "timestamp"),
    **dict.fromkeys(("VARBINARY", "BINARY"), "blob"),
    **{name: fold(name) for name in ("DATE", "DECIMAL", "TIMESTAMPTZ", "INTERVAL")},
    "BOOLEAN": "bool",
}

_RULES: dict[type, Callable[[exp.Expr], str]] = {
    exp.Literal: _literal,
    exp.Null: lambda _: "null",
    exp.Boolean: lambda _: "bool",
    exp.Interval: lambda _: "interval",
    exp.Cast: lambda node: _TYPE_KINDS.get(str(node.args["to"].this.value), ""),
    **dict.fromkeys((exp.Paren, exp.Neg, exp.Alias, exp.Window, exp.Filter, exp.Ordered), _operand_kind),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup), _operand_kind),
    exp.Distinct: lambda node: kind(node.expressions[0]) if node.expressions else "",
    exp.Order: _operand_kind,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _arithmetic),
    **dict.fromkeys((exp.Div, exp.Pow), lambda _: "float"),
    **dict.fromkeys((exp.IntDiv, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Exists, exp.Predicate), lambda _: "bool"),
    exp.DPipe: lambda _: "text",
    exp.Bracket: _bracket,
    exp.Case: _case,
    exp.If: _case,
    exp.Array: _array,
    exp.ToMap: lambda _: "",
    exp.Struct: lambda _: "struct",
    exp.Subquery: _subquery,
    exp.AtTimeZone: lambda node: {"timestamptz": "timestamp", "timestamp": "timestamptz"}.get(kind(node.this), ""),
    exp.Func: lambda node: kind_of_call(node, kind),
}

_ARROW_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("text", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    ("int", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("bool", pa.types.is_boolean),
    ("timestamptz", lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None),
    ("timestamp", pa.types.is_timestamp),
    ("date", pa.types.is_date),
    ("blob", lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
    ("struct", pa.types.is_struct),
)


Builder = Callable[..., exp.Expr]
LIST = "list<"
POSITIVE = "a position that is not a positive literal"


def require_literal(node: exp.Expr, what: str) -> str:
    """Return the text of a literal."""
    if not node.is_string:
        raise NotPortable(f"{what} that is not a literal")
    return node.name


def require_positive(node: exp.Expr, least: int = 1) -> int:
    """Return the number of a literal that is at least the minimum."""
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) >= least):
        raise NotPortable(POSITIVE)
    return int(node.name)


def require_kind(node: exp.Expr, *kinds: str) -> exp.Expr:
    """Return the node if it has one of these kinds."""
    if not any(kind(node) == one or (one == LIST and kind(node).startswith(LIST)) for one in kinds):
        raise NotPortable("a value of an unknown type, or that the engines treat differently")
    return node


def check_alike(nodes: list[exp.Expr]) -> None:
    """Raise `NotPortable` for mixed kinds such as text and numbers: each engine has its own rule for them."""
    kinds = [kind(node) for node in nodes if kind(node) not in {"", "null"}]
    times = set(kinds) <= {*TIMES, "text"}  # a time may be written as text
    if len(set(kinds)) > 1 and not common_kind(kinds) and not times:
        raise NotPortable("values of several types in one place")
