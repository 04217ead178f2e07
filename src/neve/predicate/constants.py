"""Constants of logged queries: SQL expressions of several engines, evaluated for the time when the query ran."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.predicate.times import floor_time, parse_unit, start_of_day
from neve.predicate.values import (
    Constant,
    UnknownValue,
    add_interval,
    calculate,
    cast_value,
    from_epoch,
    parse_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.predicate.filters import Value
    from neve.predicate.terms import Term

CLOCK_FUNCTIONS = {"now", "now64", "get_current_timestamp", "current_timestamp", "transaction_timestamp"}
DAY_FUNCTIONS = {"today": 0, "current_date": 0, "yesterday": -1}
TIME_FUNCTIONS = {
    *("todatetime", "todatetime64", "parsedatetimebesteffort", "parsedatetime64besteffort", "to_timestamp"),
    *("timestamp", "timestamp_ntz", "to_timestamp_ntz", "to_timestamp_ltz"),
}
EPOCH_FUNCTIONS = {
    "fromunixtimestamp": 1,
    "timestamp_seconds": 1,
    "timestamp_millis": 1_000,
    "timestamp_micros": 1_000_000,
}
INTERVAL_FUNCTIONS = {
    f"{verb}{unit}s": (sign, unit)
    for verb, sign in (("add", 1), ("subtract", -1))
    for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
}


@dataclass(frozen=True)
class ConstantEvaluator:
    """Evaluator of constants; `at` is the time of the query."""

    at: datetime

    def values(self, _term: Term, nodes: Sequence[exp.Expr]) -> list[Constant]:
        """Return values that are compared in one type.

        Raises `UnknownValue`, also for text among times, because one engine converts it to a time and another to a day.
        """
        values = [self.value(node) for node in nodes]
        if any(isinstance(one, str) for one in values) and any(isinstance(one, date) for one in values):
            raise UnknownValue
        return [Constant.of(one) for one in values]

    def truth(self, node: exp.Expr) -> bool | None:
        """Return the truth of a value, or of two values that are equal or not: tools read no rows by `1 = 0`.

        Raises `UnknownValue`.
        """
        if isinstance(node, exp.EQ | exp.NEQ):
            left, right = self.value(node.this), self.value(node.expression)
            if type(left) is not type(right):
                raise UnknownValue
            return None if left is None else (left == right) == isinstance(node, exp.EQ)
        value = self.value(node)
        if isinstance(value, str):
            raise UnknownValue
        return None if value is None else bool(value)

    def value(self, node: exp.Expr) -> Value | None:
        """Return the value, `None` for NULL. Raises `UnknownValue`."""
        try:
            return self._value(node)
        except (ArithmeticError, ValueError, TypeError, OSError) as error:
            raise UnknownValue from error

    def _value(self, node: exp.Expr) -> Value | None:
        read = _EVALUATORS.get(type(node))
        if read is None:
            raise UnknownValue
        return read(self, node)

    def _literal(self, node: exp.Expr) -> Value:
        return str(node.this) if node.is_string else parse_number(str(node.this))

    def _negative(self, node: exp.Expr) -> Value:
        value = self._value(node.this)
        if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
            return -value
        raise UnknownValue

    def _hex(self, node: exp.Expr) -> Value:
        return int(str(node.this), 16) if node.args.get("is_integer") else bytes.fromhex(str(node.this))

    def _unhex(self, node: exp.Expr) -> Value:
        return bytes.fromhex(self._text(node.this))

    def _cast(self, node: exp.Expr) -> Value | None:
        return cast_value(self._value(node.this), node.args["to"].this)

    def _to_date(self, node: exp.Expr) -> Value | None:
        if node.args.get("format") or node.args.get("expressions") or node.args.get("zone"):
            raise UnknownValue
        return cast_value(self._value(node.this), exp.DType.DATE)

    def _to_time(self, node: exp.Expr) -> Value | None:
        return cast_value(self._value(node.this), exp.DType.TIMESTAMP)

    def _now(self, _: exp.Expr) -> Value:
        return self.at

    def _today(self, _: exp.Expr) -> Value:
        return self.at.date()

    def _truncate(self, node: exp.Expr) -> Value:
        value = self._value(node.this)
        unit = parse_unit(node.args["unit"].name)
        if unit is None or not isinstance(value, date):
            raise UnknownValue
        if isinstance(value, datetime):
            return floor_time(value, unit)
        return floor_time(start_of_day(value), unit).date()

    def _epoch(self, node: exp.Expr) -> Value:
        scale = node.args.get("scale")
        return from_epoch(self._value(node.this), 10 ** int(scale.name) if scale else 1)

    def _shift(self, node: exp.Expr, sign: int) -> Value:
        unit = parse_unit(node.args["unit"].name) if node.args.get("unit") else "day"
        step = node.expression
        if isinstance(step, exp.Interval):
            return self._shift_by_interval(node.this, step, sign)
        return add_interval(self._value(node.this), sign * self._integer(step), unit)

    def _months(self, node: exp.Expr) -> Value:
        return add_interval(self._value(node.this), self._integer(node.expression), "month")

    def _sum(self, node: exp.Expr) -> Value | None:
        left, right = node.this, node.expression
        sign = -1 if isinstance(node, exp.Sub) else 1
        if isinstance(right, exp.Interval):
            return self._shift_by_interval(left, right, sign)
        if isinstance(right, exp.Add) and isinstance(right.this, exp.Interval):  # interval 1 day 2 hours
            return self._sum(type(node)(this=type(node)(this=left, expression=right.this), expression=right.expression))
        if isinstance(left, exp.Interval) and sign == 1:
            return self._shift_by_interval(right, left, 1)
        first, second = self._value(left), self._value(right)
        if type(first) is date and type(second) is int:
            return add_interval(first, sign * second, "day")
        if isinstance(first, datetime) and type(second) is int:
            return add_interval(first, sign * second, "second")  # ClickHouse
        return calculate(operator.sub if sign < 0 else operator.add, first, second)

    def _product(self, node: exp.Expr) -> Value | None:
        return calculate(operator.mul, self._value(node.this), self._value(node.expression))

    def _shift_by_interval(self, node: exp.Expr, interval: exp.Expr, sign: int) -> Value:
        unit = parse_unit(interval.args["unit"].name) if interval.args.get("unit") else None
        return add_interval(self._value(node), sign * self._integer(interval.this), unit)

    def _call(self, node: exp.Expr) -> Value | None:
        name, arguments = node.name.lower(), node.expressions
        if name in CLOCK_FUNCTIONS:
            return self.at
        if name in DAY_FUNCTIONS:
            return self.at.date() + timedelta(days=DAY_FUNCTIONS[name])
        if not arguments:
            raise UnknownValue
        first = self._value(arguments[0])
        if name == "todate" and len(arguments) == 1:
            return cast_value(first, exp.DType.DATE)
        if name in TIME_FUNCTIONS:
            return self._time(first, arguments[1:])
        if name in EPOCH_FUNCTIONS:
            return from_epoch(first, EPOCH_FUNCTIONS[name])
        if name in INTERVAL_FUNCTIONS and len(arguments) == 2:
            sign, unit = INTERVAL_FUNCTIONS[name]
            return add_interval(first, sign * self._integer(arguments[1]), unit)
        raise UnknownValue

    def _time(self, value: Value | None, options: list[exp.Expr]) -> Value | None:
        """Return a time whose further arguments are a precision and a zone; formats are not supported."""
        zones = [one.name for one in options if one.is_string]
        if any(zone.upper() not in {"UTC", "ETC/UTC", "GMT"} for zone in zones):
            raise UnknownValue
        return cast_value(value, exp.DType.TIMESTAMP)

    def _text(self, node: exp.Expr) -> str:
        value = self._value(node)
        if not isinstance(value, str):
            raise UnknownValue
        return value

    def _integer(self, node: exp.Expr) -> int:
        value = self._value(node)
        value = int(value) if isinstance(value, str) else value
        if type(value) is not int:
            raise UnknownValue
        return value


_EVALUATORS: dict[type[exp.Expr], Callable[[ConstantEvaluator, exp.Expr], Value | None]] = {
    exp.Literal: ConstantEvaluator._literal,
    exp.Boolean: lambda _, node: bool(node.this),
    exp.Null: lambda _, __: None,
    exp.Paren: lambda self, node: self._value(node.this),
    exp.Neg: ConstantEvaluator._negative,
    exp.HexString: ConstantEvaluator._hex,
    exp.Unhex: ConstantEvaluator._unhex,
    exp.Cast: ConstantEvaluator._cast,
    exp.TryCast: ConstantEvaluator._cast,
    exp.Date: ConstantEvaluator._to_date,
    exp.TsOrDsToDate: ConstantEvaluator._to_date,
    exp.FromISO8601Date: ConstantEvaluator._to_date,
    exp.FromISO8601Timestamp: ConstantEvaluator._to_time,
    exp.CurrentTimestamp: ConstantEvaluator._now,
    exp.Localtimestamp: ConstantEvaluator._now,
    exp.CurrentDate: ConstantEvaluator._today,
    exp.TimestampTrunc: ConstantEvaluator._truncate,
    exp.DateTrunc: ConstantEvaluator._truncate,
    exp.UnixToTime: ConstantEvaluator._epoch,
    exp.DateAdd: lambda self, node: self._shift(node, 1),
    exp.DateSub: lambda self, node: self._shift(node, -1),
    exp.TimestampAdd: lambda self, node: self._shift(node, 1),
    exp.TimestampSub: lambda self, node: self._shift(node, -1),
    exp.TsOrDsAdd: lambda self, node: self._shift(node, 1),
    exp.AddMonths: ConstantEvaluator._months,
    exp.Add: ConstantEvaluator._sum,
    exp.Sub: ConstantEvaluator._sum,
    exp.Mul: ConstantEvaluator._product,
    exp.Anonymous: ConstantEvaluator._call,
}
