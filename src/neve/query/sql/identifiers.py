"""Names in statements: the functions that a query may call, and suggestions for tables.

A function that is not listed is rejected: functions that read files, settings, secrets or the catalog, that run text
as SQL, that wait or that write. `query/sql/spark/functions.py` defines the Spark equivalents, where there are any.
This module is loaded by worker processes and must not import sqlglot.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.sql.hints import LONGEST_WORD, duckdb_functions, function_hint

if TYPE_CHECKING:
    from collections.abc import Iterable


# Names of the tables in other systems.
SYNONYMS = {
    **dict.fromkeys(("trace", "traces", "tracing", "transactions"), "spans"),
    **dict.fromkeys(("event", "events", "log_records", "messages", "syslog"), "logs"),
    **dict.fromkeys(("measurements", "points", "datapoints", "data_points", "samples", "timeseries"), "metrics"),
    **dict.fromkeys(("history", "query_log", "query_history"), "queries"),
}


def tables_hint(name: str, known: Iterable[str]) -> str:
    """Return the table that is nearest to a name, or all tables.

    >>> tables_hint("traces", ["logs", "spans"]), tables_hint("xyz", ["logs", "spans"])
    ('did you mean spans? `SHOW TABLES` lists all', 'there are logs, spans')
    """
    names = sorted(known)
    asked = name.lower()
    near = [SYNONYMS[asked]] if SYNONYMS.get(asked) in names else get_close_matches(asked, names, n=1)
    if near:
        return f"did you mean {near[0]}? `SHOW TABLES` lists all"
    return f"there are {', '.join(names)}" if names else "there are no tables, `neve init` creates them"


# A function that is not listed is rejected: functions that read files, settings, secrets or the catalog, that run text
# as SQL, that wait or that write. `query/sql/spark/functions.py` defines the Spark equivalents, where there are any.


def split_names(text: str) -> frozenset[str]:
    """Split names that are separated by spaces."""
    return frozenset(text.split())


AGGREGATES = split_names(
    """any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_min arg_min_null
    argmax argmin array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star countif covar_pop
    covar_samp entropy favg first fsum geomean geometric_mean group_concat grouping grouping_id histogram kahan_sum
    kurtosis kurtosis_pop last list listagg mad max max_by mean median min min_by mode percentile_cont percentile_disc
    product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop stddev_samp string_agg sum sumkahan var_pop var_samp
    variance weighted_avg"""
)
WINDOWS = split_names(
    """cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank rank_dense
    row_number"""
)
NUMBERS = split_names(
    """abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial
    fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least least_common_multiple
    lgamma ln log log10 log2 mod nextafter pi pow power radians round round_even sign signbit sin sinh sqrt tan tanh
    trunc xor"""
)
TEXTS = split_names(
    """ascii bar base64 bin bit_length char_length character_length chr concat concat_ws contains damerau_levenshtein
    decode editdist3 encode ends_with format format_bytes formatreadabledecimalsize formatreadablesize from_base64
    from_binary from_hex hamming has_phrase has_term hash hex instr jaccard jaro_similarity jaro_winkler_similarity
    lcase left left_grapheme len length length_grapheme levenshtein like_escape ilike_escape lower lpad ltrim md5
    md5_number mismatches nfc_normalize not_ilike_escape not_like_escape octet_length ord parse_dirname parse_dirpath
    parse_filename parse_path position prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match
    regexp_matches regexp_replace regexp_split_to_array repeat replace reverse right right_grapheme rpad rtrim sha1
    sha256 split split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array
    strip_accents strlen strpos substr substring substring_grapheme suffix to_base to_base64 to_binary to_hex translate
    trim ucase unbin unhex unicode upper url_decode url_encode"""
)
TIMES = split_names(
    """age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname
    dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era extract hour isodow isoyear
    julian last_day make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond
    millennium millisecond minute month monthname nanosecond quarter second strftime strptime time_bucket timezone
    timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia to_milliseconds
    to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years try_strptime week weekday weekofyear year
    yearweek"""
)
NESTED = split_names(
    """array_aggr array_aggregate array_append array_apply array_cat array_concat array_contains array_cosine_distance
    array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product array_extract
    array_filter array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product array_intersect
    array_length array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front
    array_reduce array_resize array_reverse array_reverse_sort array_select array_slice array_sort array_to_string
    array_transform array_unique array_value array_where array_zip apply cardinality element_at filter flatten
    generate_series grade_up list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct
    list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains
    list_cosine_distance list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element
    list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram
    list_indexof list_inner_product list_intersect list_kurtosis list_last list_mad list_max list_median list_min
    list_mode list_pack list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort
    list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum
    list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip map map_concat map_contains
    map_contains_entry map_contains_value map_entries map_extract map_extract_value map_from_entries map_keys map_values
    range reduce row struct_concat struct_contains struct_extract struct_extract_at struct_has struct_indexof
    struct_insert struct_keys struct_pack struct_position struct_update struct_values unnest"""
)
JSON = split_names(
    """array_to_json from_json from_json_strict json json_array json_array_length json_contains json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_group_array json_group_object
    json_group_structure json_keys json_merge_patch json_object json_pretty json_quote json_structure json_transform
    json_transform_strict json_type json_valid json_value row_to_json to_json"""
)
OTHER = split_names("coalesce constant_or_null equi_width_bins if ifnull nullif try typeof pg_typeof")
# The value differs each time, so that a result must not be cached.
VOLATILE = split_names(
    """ago current_date current_localtime current_localtimestamp current_time current_timestamp gen_random_uuid
    get_current_time get_current_timestamp localtime localtimestamp now random today transaction_timestamp uuid uuidv4
    uuidv7"""
)
TABLE_FUNCTIONS = split_names("generate_series range unnest")  # allowed in FROM
KNOWN = AGGREGATES | WINDOWS | NUMBERS | TEXTS | TIMES | NESTED | JSON | OTHER | VOLATILE


def function_error(name: str, known: Iterable[str]) -> QueryError:
    """Return the error for a function that is not one of the known ones."""
    name = name[:LONGEST_WORD]
    if fold(name) in duckdb_functions():
        return QueryError(f"the function {name} is not allowed in queries", hint=function_hint(name, ()))
    return QueryError(f"unknown function {name}", hint=function_hint(name, known))
