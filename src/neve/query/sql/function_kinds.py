"""What kind of value a function gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.identifiers import fold
from neve.query.sql.nodes import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

SAME = "same"  # as its first argument
ANY = "any"  # as its arguments, which are alike
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
KINDS = {name: kind for kind, names in GIVES.items() for name in names.split()}


def name_of(node: exp.Expr) -> str:
    """What a function is called in SQL, in lower case."""
    return fold(node.name) if isinstance(node, exp.Anonymous) else FUNCTIONS.get(type(node), "")


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function, whatever node it is; of `count(DISTINCT x)` it is x."""
    if isinstance(node, exp.Anonymous):
        arguments = list(node.expressions)
    else:
        parts = (node.args.get(key) for key in node.arg_types)
        arguments = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    found = [item for item in arguments if isinstance(item, exp.Expr)]
    return [*found[0].expressions, *found[1:]] if found and isinstance(found[0], exp.Distinct) else found


def kind_of_call(node: exp.Expr, kind: Callable[[exp.Expr], str]) -> str:
    """The kind of what a function gives, from the kinds of its arguments."""
    name = name_of(node)
    kinds = [kind(argument) for argument in arguments_of(node)]
    first = kinds[0] if kinds else ""
    if name in _BY_ARGUMENTS:
        return _BY_ARGUMENTS[name](kinds, node)
    gives = KINDS.get(name, "")
    return _common(kinds) if gives == ANY else first if gives == SAME else gives


def _truncated(kinds: list[str], node: exp.Expr) -> str:
    times = [of for of in kinds if of in {"timestamptz", "timestamp", "date"}]
    return "timestamp" if times[:1] == ["date"] and name_of(node) != "time_bucket" else (times or [""])[0]


def _part(_: list[str], node: exp.Expr) -> str:
    part = fold(arguments_of(node)[0].name) if arguments_of(node) else ""
    return "float" if part in {"epoch", "julian"} else "int"


def _stepped(kinds: list[str], _: exp.Expr) -> str:
    return "float" if kinds[:1] in (["int"], ["float"]) else (kinds or [""])[0]


def _element(kinds: list[str], _: exp.Expr) -> str:
    return kinds[0][5:-1] if kinds and kinds[0].startswith("list<") else ""


def _common(kinds: list[str]) -> str:
    left = {kind for kind in kinds if kind != "null"}
    numbers = [kind for kind in ("float", "decimal", "int") if kind in left]
    if left and left == set(numbers):
        return numbers[0]
    return left.pop() if len(left) == 1 else ""


_BY_ARGUMENTS: dict[str, Callable[[list[str], exp.Expr], str]] = {
    **dict.fromkeys(("date_trunc", "datetrunc", "time_bucket"), _truncated),
    "sum": lambda kinds, _: kinds[0] if kinds and kinds[0] in {"int", "float", "decimal"} else "",
    "epoch_ms": lambda kinds, _: "timestamp" if kinds[:1] == ["int"] else "int",
    **dict.fromkeys(("extract", "date_part", "datepart"), _part),
    **dict.fromkeys(("floor", "ceil", "ceiling", "trunc"), _stepped),
    **dict.fromkeys(("list_extract", "array_extract", "list_element", "list_min", "list_max"), _element),
}
