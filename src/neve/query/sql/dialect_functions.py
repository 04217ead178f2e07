"""What each function is for Spark: the same, another one, or an expression that gives the same.

A function that is not named here, Spark does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.query.sql import dialect_aggregates, dialect_lists, dialect_numbers, dialect_texts, dialect_time_functions
from neve.query.sql.build import call
from neve.query.sql.functions import names
from neve.query.sql.portable import NotPortable

if TYPE_CHECKING:
    from sqlglot import exp

# Functions that give the same in both, under the same name and with the same arguments.
SAME = names(
    """abs bit_and bit_or bit_xor bool_and bool_or cbrt coalesce concat_ws cos count_if covar_pop covar_samp cume_dist
    degrees dense_rank exp first_value greatest grouping grouping_id ifnull isnan lag last_value lead least
    levenshtein     log10 log2 lower lpad map_entries map_keys map_values max md5 min month nth_value ntile nullif
    octet_length     percent_rank percentile_cont percentile_disc pi quarter radians rank repeat reverse row_number
    rpad sha1 sin starts_with stddev stddev_pop     stddev_samp tan unhex upper var_pop var_samp variance year"""
)
RENAMED = {
    "countif": "count_if",
    "lcase": "lower",
    "ucase": "upper",
    "prefix": "startswith",
    "starts_with": "startswith",
    "suffix": "endswith",
    "ends_with": "endswith",
    "pow": "power",
    "power": "power",
    "rank_dense": "dense_rank",
    "char_length": "char_length",
    "character_length": "char_length",
    "from_hex": "unhex",
    "strpos": "instr",
    "instr": "instr",
    "map_contains": "map_contains_key",
    "now": "current_timestamp",
    "map_extract_value": "try_element_at",
    "today": "current_date",
    "get_current_timestamp": "current_timestamp",
    "array_to_string": "array_join",
    "to_hex": "hex",
    "strlen": "octet_length",
    "list_min": "array_min",
    "list_max": "array_max",
    "dayofmonth": "day",
    "random": "rand",
}
BUILDERS = {
    **dialect_aggregates.BUILDERS,
    **dialect_lists.BUILDERS,
    **dialect_numbers.BUILDERS,
    **dialect_texts.BUILDERS,
    **dialect_time_functions.BUILDERS,
}


def rebuilt(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """The call for Spark; raise `NotPortable` where there is none."""
    if name in BUILDERS:
        try:
            return BUILDERS[name](*arguments)
        except TypeError as error:
            raise NotPortable(f"{name} with {len(arguments)} arguments") from error
    if name in RENAMED or name in SAME:
        return call(RENAMED.get(name, name).upper(), *arguments)
    raise NotPortable(f"the function {name}")
