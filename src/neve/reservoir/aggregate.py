"""`weighted_reservoir_sample` for everyone's SQL: registered on a session, native and merged like `sum`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault
from neve.reservoir.definition import TOP, sample_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "weighted_reservoir_sample"
USAGE = f"{NAME}(struct(key, weight), k) or {NAME}(struct(key, weight), k, salt)"
LARGEST = 2**31 - 2  # one more is looked at than is kept
GROUPS = 100_000  # whose samples a task holds before it sorts its rows instead
CATALYST = "org.apache.spark.sql.catalyst"


def register(spark: SparkSession, salt: int) -> None:
    """Make `weighted_reservoir_sample(struct(key, weight), k)` known to a session's SQL.

    It gives `array<struct<value, adjusted_weight>>`. A third argument salts the chances further: a query that samples
    what another one sampled needs it.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise EnvironmentFault(
            f"{NAME} can't be registered through Spark Connect",
            hint="run on a classic session (spark.master), or use neve.reservoir.transform.weighted_sample",
        )
    register_top(spark)
    spark.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", str(GROUPS))
    _start_callbacks(spark)
    _functions(spark).createOrReplaceTempFunction(NAME, _Builder(spark, salt), "scala_udf")


def register_top(spark: SparkSession) -> None:
    """Give Spark's own top-k aggregate a name in a session."""
    jvm: Any = spark._jvm
    internal = _module(jvm, f"{CATALYST}.analysis.FunctionRegistry").internal()
    builder = internal.lookupFunctionBuilder(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("collect_top_k"))
    _functions(spark).createOrReplaceTempFunction(TOP, builder.get(), "scala_udf")


def is_native(spark: SparkSession) -> bool:
    """Whether a session lets its own functions be named: classic ones do, Spark Connect does not."""
    return getattr(spark, "_jsparkSession", None) is not None


class _Builder:
    """Called by Spark's analyzer with the arguments of a call; gives the expression that stands for it."""

    def __init__(self, spark: SparkSession, salt: int) -> None:
        self._spark, self._salt = spark, salt

    def apply(self, arguments: Any) -> Any:
        given = [arguments.apply(index) for index in range(arguments.size())]
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        wrong = _complaint(given)
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


def _complaint(given: list[Any]) -> str:
    """What is wrong with a call's arguments, as far as their form tells; it is said when the query runs."""
    if len(given) not in (2, 3):
        return f"{NAME} takes 2 or 3 arguments, not {len(given)}"
    item, k = given[:2]
    if item.resolved() and not _is_pair(item.dataType()):
        return f"{NAME} samples structs of a key and its weight, not {item.dataType().simpleString()}"
    if not k.foldable():
        return f"{NAME} keeps as many items of each group, and {_said(k)} is not a constant"
    size = k.eval(None)
    if type(size) is not int or not 1 <= size <= LARGEST:
        return f"{NAME} keeps 1 to {LARGEST} items of a group, a whole number, not {_said(k)}"
    return ""


def _said(expression: Any) -> str:
    """An expression in words that can stand inside a quoted string."""
    return str(expression.sql()).replace("'", "").replace("\\", "")


def _is_pair(kind: Any) -> bool:
    return bool(kind.typeName() == "struct" and kind.length() == 2)


class _Placeholders:
    """Puts a call's arguments into the places that the definition has for them."""

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
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - only for those who have a session

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
