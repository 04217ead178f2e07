"""SQL aggregate `weighted_reservoir_sample`: its definition in Spark SQL, and its registration on a session.

`collect_top_k`, an internal aggregate of Spark, holds the largest k + 1 entries of a group in each partition and
merges them after the shuffle: entries that can't be in the sample are cut before it. The transform uses the same
definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault
from neve.reservoir.sampling.methods import LARGEST_WEIGHT, hash_sql, uniform_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOP = "neve_top_k"  # the name of `collect_top_k` in sessions of Neve
REFUSED = "neve: weight of item"


def weight_sql(weight: str, key: str) -> str:
    """Return the SQL of a valid weight.

    A missing weight counts as 1. One of 0 or less, or too large, fails the job.
    """
    words = f"concat('{REFUSED} ', to_json(named_struct('key', {key})), ' is ', {weight})"
    return (
        f"(CASE WHEN {weight} IS NULL THEN 1D WHEN {weight} > 0D AND {weight} < {LARGEST_WEIGHT}D "
        f"THEN CAST({weight} AS DOUBLE) ELSE CAST(raise_error({words}) AS DOUBLE) END)"
    )


def top_sql(key: str, weight: str, k: str, salt: int, *more: str) -> str:
    """Return the SQL of a group's largest entries in descending order: those that are kept, and the first that is not.

    Entries are compared by weight / random number, then by key. `more` are expressions that salt the random number
    further.
    """
    checked = weight_sql(weight, key)
    chance = uniform_sql(hash_sql(salt, *more, key))
    entry = f"named_struct('priority', {checked} / {chance}, 'key', {key}, 'weight', {checked})"
    return f"{TOP}({entry}, {k} + 1, false)"


def threshold_sql(top: str, k: str) -> str:
    """Return the SQL of the adjusted weight of light items: the priority of the first dropped item, 0 if none was."""
    return f"coalesce(get({top}, {k}).priority, 0D)"


def sample_sql(key: str, weight: str, k: str, salt: int, *more: str) -> str:
    """Return the SQL of a group's sample: an array of values and their adjusted weights."""
    top = top_sql(key, weight, k, salt, *more)
    kept = f"slice({top}, 1, {k})"
    entry = "named_struct('value', one.key, 'adjusted_weight', greatest(one.weight, light))"
    # The threshold is passed as an array: a name inside a lambda would be ambiguous with the lambda's own.
    return f"zip_with({kept}, array_repeat({threshold_sql(top, k)}, size({kept})), (one, light) -> {entry})"


NAME = "weighted_reservoir_sample"
USAGE = f"{NAME}(struct(key, weight), k) or {NAME}(struct(key, weight), k, salt)"
LARGEST = 2**31 - 2  # one more entry is collected than is kept
GROUPS = 100_000  # groups whose samples a task holds before it sorts its rows instead
CATALYST = "org.apache.spark.sql.catalyst"


def register_udafs(spark: SparkSession, salt: int) -> None:
    """Register `weighted_reservoir_sample(struct(key, weight), k)` as an aggregate function of a session's SQL.

    It returns `array<struct<value, adjusted_weight>>`. A third argument salts the random numbers further. A query that
    samples the result of another sampling needs it.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise EnvironmentFault(
            f"{NAME} can't be registered through Spark Connect",
            hint="run on a classic session (spark.master), or use neve.reservoir.sampling.transform.weighted_sample",
        )
    register_top(spark)
    spark.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", str(GROUPS))
    _start_callbacks(spark)
    _functions(spark).createOrReplaceTempFunction(NAME, _Builder(spark, salt), "scala_udf")


def register_top(spark: SparkSession) -> None:
    """Register Spark's internal top-k aggregate under a name in a session."""
    jvm: Any = spark._jvm
    internal = _module(jvm, f"{CATALYST}.analysis.FunctionRegistry").internal()
    builder = internal.lookupFunctionBuilder(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("collect_top_k"))
    _functions(spark).createOrReplaceTempFunction(TOP, builder.get(), "scala_udf")


def is_native(spark: SparkSession) -> bool:
    """Return whether a session can register internal functions: classic sessions can, Spark Connect can't."""
    return getattr(spark, "_jsparkSession", None) is not None


class _Builder:
    """Builder that Spark's analyzer calls with the arguments of a call.

    It returns the expression that replaces the call.
    """

    def __init__(self, spark: SparkSession, salt: int) -> None:
        self._spark, self._salt = spark, salt

    def apply(self, arguments: Any) -> Any:
        given = [arguments.apply(index) for index in range(arguments.size())]
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        wrong = _describe_bad_arguments(given)
        if wrong:
            return parser.parseExpression(f"raise_error('{wrong}: {USAGE}')")
        jvm: Any = self._spark._jvm
        item, k, *more = given
        field, nobody = jvm.org.apache.spark.sql.catalyst.expressions.GetStructField, _module(jvm, "scala.None")
        named = {"'__key": field(item, 0, nobody), "'__weight": field(item, 1, nobody)}
        if more:
            named["'__more"] = more[0]
        text = sample_sql("__key", "__weight", str(k.eval(None)), self._salt, *(["__more"] if more else []))
        return parser.parseExpression(text).transform(_Placeholders(named))

    class Java:
        implements = ("scala.Function1",)


def _describe_bad_arguments(given: list[Any]) -> str:
    """Describe invalid arguments of a call, as far as their form shows.

    The error is raised when the query runs.
    """
    if len(given) not in (2, 3):
        return f"{NAME} takes 2 or 3 arguments, not {len(given)}"
    item, k = given[:2]
    if item.resolved() and not _is_pair(item.dataType()):
        return f"{NAME} samples structs of a key and its weight, not {item.dataType().simpleString()}"
    if not k.foldable():
        return f"{NAME} keeps as many items of each group, and {_quote_expression(k)} is not a constant"
    size = k.eval(None)
    if type(size) is not int or not 1 <= size <= LARGEST:
        return f"{NAME} keeps 1 to {LARGEST} items of a group, a whole number, not {_quote_expression(k)}"
    return ""


def _quote_expression(expression: Any) -> str:
    """Return an expression as text that is valid inside a quoted string."""
    return str(expression.sql()).replace("'", "").replace("\\", "")


def _is_pair(kind: Any) -> bool:
    return bool(kind.typeName() == "struct" and kind.length() == 2)


class _Placeholders:
    """Partial function that replaces the placeholders of the definition with the arguments of a call."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def applyOrElse(self, node: Any, otherwise: Any) -> Any:  # noqa: N802 - the name that Scala calls
        found = self._named.get(node.toString())
        return otherwise.apply(node) if found is None else found

    class Java:
        implements = ("scala.PartialFunction",)


def _functions(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().functionRegistry()


def _module(jvm: Any, name: str) -> Any:
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


def _start_callbacks(spark: SparkSession) -> None:
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - needed only with a session

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
