"""Allowlist of the SQL that Spark may run for a canary. Anything that isn't listed is refused.

Hot queries come from the logs of other engines, so their authors are not trusted. The text is parsed once more as
Spark will read it. Literals, operators and clauses are checked by node type, functions by name: a list of bad
functions is never complete, and a refused query is only not compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from collections.abc import Collection

ENGINE = "spark"
SUBSTITUTION = "${"  # Spark would substitute its settings and the environment of its process
NAME = re.compile(r"\w{1,40}", re.ASCII)


def split_names(text: str) -> frozenset[str]:
    """Split a text into names."""
    return frozenset(text.split())


ALLOWED_NODES = split_names(
    """select subquery union except intersect values tuple with cte from join lateral table tablealias where group
    groupingsets rollup cube having order ordered sort distinct pivot pivotalias
    alias aliases column dot identifier star var literal boolean null interval intervalspan datatype datatypeparam
    columndef propertyeq
    add sub mul div intdiv mod neg dpipe paren bitwiseand bitwiseor bitwisexor bitwisenot bitwiseleftshift
    bitwiserightshift and or xor not eq neq gt gte lt lte nullsafeeq nullsafeneq is in between like ilike escape any all
    exists bracket slice lambda attimezone fromtimezone jsonpath jsonpathroot jsonpathkey jsonpathsubscript
    jsonpathwildcard window windowspec filter withingroup ignorenulls respectnulls anonymous"""
)
# Functions that the parser knows, by its names for them.
ALLOWED_FUNCTIONS = split_names(
    """approxdistinct argmax argmin avg bitwiseandagg bitwiseoragg bitwisexoragg corr count countif covarpop covarsamp
    grouping groupingid kurtosis logicaland logicalor max median min mode percentilecont percentiledisc quantile
    skewness stddev stddevpop stddevsamp sum variance variancepop
    cumedist denserank firstvalue lag lastvalue lead nthvalue ntile percentrank rank
    abs acos asin atan atan2 bitwisecount cbrt ceil cos cosh degrees exp floor greatest isinf isnan least ln log nanvl
    pow radians round safedivide sign sin sinh sqrt tan tanh trunc widthbucket
    ascii base64decodestring bitlength chr concat concatws contains decode elt encode endswith frombase64 hex initcap
    left length levenshtein lower md5 overlay regexpcount regexpextract regexpextractall regexpilike regexpinstr
    regexplike regexpreplace regexpsplit replace reverse right sha sha2 soundex split splitpart startswith strposition
    substring substringindex tobase64 translate trim unhex unicode upper
    addmonths converttimezone date dateadd datediff datefromparts datefromunixdate datestrtodate datesub datetrunc day
    dayname dayofmonth dayofweek dayofyear extract hour lastday makeinterval minute month monthname monthsbetween
    nextday quarter second strtodate strtotime strtounix timestamp timestampadd timestampdiff timestampsub
    timestamptrunc timestrtodate timestrtotime timestrtounix timetostr timetounix tsordsadd tsordsdiff tsordstodate
    tsordstodatestr tsordstotimestamp unixdate unixmicros unixmillis unixseconds unixtostr unixtotime unixtotimestr week
    weekofyear year
    array arrayall arrayany arrayappend arraycompact arrayconcat arraycontains arraydistinct arrayexcept arrayfilter
    arrayfirst arrayinsert arrayintersect arraymax arraymin arrayoverlaps arrayposition arrayprepend arrayremove
    arrayreverse arraysize arrayslice arraysort arraytostring arrayszip explode _explodeouter flatten
    fromjson inline jsonextract jsonextractscalar jsonformat jsonkeys map mapcat mapcontainskey mapfromentries mapkeys
    mapsize parsejson posexplode posexplodeouter reduce struct structextract transform varmap
    case cast coalesce if nullif nvl2 try trycast typeof"""
)
# Functions of Spark that the parser does not know.
ALLOWED_CALLS = split_names(
    """any bit_and bit_count bit_get bit_or bit_xor bool_and bool_or bround
    btrim cardinality char_length character_length count_min_sketch crc32 date_part datepart element_at equal_null every
    filter find_in_set forall from_utc_timestamp getbit hash histogram_numeric isnotnull
    isnull json_array_length json_object_keys kurtosis lcase len locate log10 log1p log2 make_date make_timestamp
    map_entries map_filter map_from_arrays map_values map_zip_with max_by mean min_by mod named_struct negative nvl
    octet_length parse_url percentile pmod position positive power regexp_substr regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy rint sentences shiftleft shiftright signum size some
    std str_to_map timestamp_micros timestamp_millis timestamp_seconds to_char to_number to_unix_timestamp
    to_utc_timestamp transform_keys transform_values try_add try_avg try_divide try_element_at try_multiply try_subtract
    try_sum try_to_number try_to_timestamp ucase url_decode url_encode var_pop var_samp weekday xxhash64 zip_with"""
)
TABLE_PARTS = frozenset({"this", "alias", "db", "catalog", "pivots", "joins", "laterals"})


def find_refusal(text: str, views: Collection[str], catalog: str) -> str:
    """Return why a statement is refused; empty if it only reads views and tables of a catalog."""
    if SUBSTITUTION in text:
        return f"it has {SUBSTITUTION}…}}, which Spark would replace by a setting of the service"
    try:
        tree = sqlglot.parse_one(text, read=ENGINE)
    except SqlglotError:
        return "its text for Spark can't be parsed"
    if not isinstance(tree, exp.Query):
        return f"it is a {tree.key}"
    return next(filter(None, (_find_node_refusal(node, views, catalog) for node in tree.walk())), "")


def is_defined_by_with(node: exp.Table) -> bool:
    """Return whether a WITH around a table's name defines it.

    It may be an earlier definition of the same WITH, or any definition of an outer one.
    """
    if node.db or not isinstance(node.this, exp.Identifier):
        return False
    name, child, parent = _fold_name(node.name), node.parent and node, node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            before = parent.expressions[: parent.expressions.index(child) + bool(parent.args.get("recursive"))]
            if name in {_fold_name(cte.alias) for cte in before}:
                return True
            child, parent = parent.parent, parent.parent and parent.parent.parent
            continue
        outer = parent.args.get("with_")
        if outer is not None and name in {_fold_name(cte.alias) for cte in outer.expressions}:
            return True
        child, parent = parent, parent.parent
    return False


def _fold_name(name: str) -> str:
    """Return a name in the form in which engines compare it.

    Engines compare letters beyond ASCII in different ways, so names with such letters are not folded.
    """
    return name.lower() if name.isascii() else name


def _find_node_refusal(node: exp.Expr, views: Collection[str], catalog: str) -> str:
    if node.key not in ALLOWED_NODES and node.key not in ALLOWED_FUNCTIONS:
        return f"it uses {_format_name(node.key)}, which is not on the allowlist"
    reason = ""
    match node:
        case exp.Anonymous() if node.name.lower() not in ALLOWED_CALLS:
            reason = f"it calls {_format_name(node.name)}, which is not on the allowlist"
        case exp.Table():
            reason = _find_table_refusal(node, views, catalog)
        case exp.CTE() if not node.alias.isascii():
            reason = "a name of its WITH is not ASCII"
        case exp.Dot(expression=exp.Func()):
            reason = "it calls a function of a catalog"
        case exp.DataType(this=exp.DType.USERDEFINED | exp.DType.UNKNOWN):
            reason = "it uses an unknown type"
    return reason


def _find_table_refusal(node: exp.Table, views: Collection[str], catalog: str) -> str:
    further = {key for key, value in node.args.items() if value} - TABLE_PARTS
    if further or not isinstance(node.this, exp.Identifier):
        return "it reads something other than a plain table"
    if node.db and node.catalog == catalog:
        return ""
    if not node.db and (node.name in views or is_defined_by_with(node)):
        return ""
    return "it reads a table of another catalog"


def _format_name(name: str) -> str:
    """Return a name for a message; a text that is not a valid name could be a value."""
    return name.lower() if NAME.fullmatch(name) else "something"
