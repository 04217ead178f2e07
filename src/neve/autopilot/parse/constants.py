"""The values of expressions without columns, at the time when a query was asked."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.parse.moments import floor as floor_of
from neve.autopilot.parse.moments import midnight, unit_of
from neve.autopilot.parse.values import Unknown, calculated, cast, moved, number, since_epoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.autopilot.workload import Value

CLOCKS = {"now", "now64", "get_current_timestamp", "current_timestamp", "transaction_timestamp"}
DAYS = {"today": 0, "current_date": 0, "yesterday": -1}
TIMES = {
    *("todatetime", "todatetime64", "parsedatetimebesteffort", "parsedatetime64besteffort", "to_timestamp"),
    *("timestamp", "timestamp_ntz", "to_timestamp_ntz", "to_timestamp_ltz"),
}
EPOCHS = {"fromunixtimestamp": 1, "timestamp_seconds": 1, "timestamp_millis": 1_000, "timestamp_micros": 1_000_000}
ADDERS = {
    f"{verb}{unit}s": (sign, unit)
    for verb, sign in (("add", 1), ("subtract", -1))
    for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
}


@dataclass(frozen=True)
class Constants:
    """Reads values; `at` is what the clock said."""

    at: datetime

    def value(self, node: exp.Expr) -> Value | None:
        """The value, `None` for NULL; raises `Unknown`."""
        try:
            return self._value(node)
        except (ArithmeticError, ValueError, TypeError, OSError) as error:
            raise Unknown from error

    def _value(self, node: exp.Expr) -> Value | None:
        read = _READERS.get(type(node))
        if read is None:
            raise Unknown
        return read(self, node)

    def _literal(self, node: exp.Expr) -> Value:
        return str(node.this) if node.is_string else number(str(node.this))

    def _negative(self, node: exp.Expr) -> Value:
        value = self._value(node.this)
        if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
            return -value
        raise Unknown

    def _hex(self, node: exp.Expr) -> Value:
        return int(str(node.this), 16) if node.args.get("is_integer") else bytes.fromhex(str(node.this))

    def _unhex(self, node: exp.Expr) -> Value:
        return bytes.fromhex(self._text(node.this))

    def _cast(self, node: exp.Expr) -> Value | None:
        return cast(self._value(node.this), node.args["to"].this)

    def _to_date(self, node: exp.Expr) -> Value | None:
        if node.args.get("format") or node.args.get("expressions") or node.args.get("zone"):
            raise Unknown
        return cast(self._value(node.this), exp.DType.DATE)

    def _to_time(self, node: exp.Expr) -> Value | None:
        return cast(self._value(node.this), exp.DType.TIMESTAMP)

    def _now(self, _: exp.Expr) -> Value:
        return self.at

    def _today(self, _: exp.Expr) -> Value:
        return self.at.date()

    def _truncated(self, node: exp.Expr) -> Value:
        value = self._value(node.this)
        unit = unit_of(node.args["unit"].name)
        if unit is None or not isinstance(value, date):
            raise Unknown
        if isinstance(value, datetime):
            return floor_of(value, unit)
        return floor_of(midnight(value), unit).date()

    def _epoch(self, node: exp.Expr) -> Value:
        scale = node.args.get("scale")
        return since_epoch(self._value(node.this), 10 ** int(scale.name) if scale else 1)

    def _shifted(self, node: exp.Expr, sign: int) -> Value:
        unit = unit_of(node.args["unit"].name) if node.args.get("unit") else "day"
        step = node.expression
        if isinstance(step, exp.Interval):
            return self._moved(node.this, step, sign)
        return moved(self._value(node.this), sign * self._integer(step), unit)

    def _months(self, node: exp.Expr) -> Value:
        return moved(self._value(node.this), self._integer(node.expression), "month")

    def _sum(self, node: exp.Expr) -> Value | None:
        left, right = node.this, node.expression
        sign = -1 if isinstance(node, exp.Sub) else 1
        if isinstance(right, exp.Interval):
            return self._moved(left, right, sign)
        if isinstance(right, exp.Add) and isinstance(right.this, exp.Interval):  # interval 1 day 2 hours
            return self._sum(type(node)(this=type(node)(this=left, expression=right.this), expression=right.expression))
        if isinstance(left, exp.Interval) and sign == 1:
            return self._moved(right, left, 1)
        first, second = self._value(left), self._value(right)
        if type(first) is date and type(second) is int:
            return moved(first, sign * second, "day")
        if isinstance(first, datetime) and type(second) is int:
            return moved(first, sign * second, "second")  # ClickHouse
        return calculated(operator.sub if sign < 0 else operator.add, first, second)

    def _product(self, node: exp.Expr) -> Value | None:
        return calculated(operator.mul, self._value(node.this), self._value(node.expression))

    def _moved(self, node: exp.Expr, interval: exp.Expr, sign: int) -> Value:
        unit = unit_of(interval.args["unit"].name) if interval.args.get("unit") else None
        return moved(self._value(node), sign * self._integer(interval.this), unit)

    def _call(self, node: exp.Expr) -> Value | None:
        name, arguments = node.name.lower(), node.expressions
        if name in CLOCKS:
            return self.at
        if name in DAYS:
            return self.at.date() + timedelta(days=DAYS[name])
        if not arguments:
            raise Unknown
        first = self._value(arguments[0])
        if name == "todate" and len(arguments) == 1:
            return cast(first, exp.DType.DATE)
        if name in TIMES:
            return self._time(first, arguments[1:])
        if name in EPOCHS:
            return since_epoch(first, EPOCHS[name])
        if name in ADDERS and len(arguments) == 2:
            sign, unit = ADDERS[name]
            return moved(first, sign * self._integer(arguments[1]), unit)
        raise Unknown

    def _time(self, value: Value | None, options: list[exp.Expr]) -> Value | None:
        """A time whose further arguments are a precision and a zone; a format is not read."""
        zones = [one.name for one in options if one.is_string]
        if any(zone.upper() not in {"UTC", "ETC/UTC", "GMT"} for zone in zones):
            raise Unknown
        return cast(value, exp.DType.TIMESTAMP)

    def _text(self, node: exp.Expr) -> str:
        value = self._value(node)
        if not isinstance(value, str):
            raise Unknown
        return value

    def _integer(self, node: exp.Expr) -> int:
        value = self._value(node)
        value = int(value) if isinstance(value, str) else value
        if type(value) is not int:
            raise Unknown
        return value


_READERS: dict[type[exp.Expr], Callable[[Constants, exp.Expr], Value | None]] = {
    exp.Literal: Constants._literal,
    exp.Boolean: lambda _, node: bool(node.this),
    exp.Null: lambda _, __: None,
    exp.Paren: lambda self, node: self._value(node.this),
    exp.Neg: Constants._negative,
    exp.HexString: Constants._hex,
    exp.Unhex: Constants._unhex,
    exp.Cast: Constants._cast,
    exp.TryCast: Constants._cast,
    exp.Date: Constants._to_date,
    exp.TsOrDsToDate: Constants._to_date,
    exp.FromISO8601Date: Constants._to_date,
    exp.FromISO8601Timestamp: Constants._to_time,
    exp.CurrentTimestamp: Constants._now,
    exp.Localtimestamp: Constants._now,
    exp.CurrentDate: Constants._today,
    exp.TimestampTrunc: Constants._truncated,
    exp.DateTrunc: Constants._truncated,
    exp.UnixToTime: Constants._epoch,
    exp.DateAdd: lambda self, node: self._shifted(node, 1),
    exp.DateSub: lambda self, node: self._shifted(node, -1),
    exp.TimestampAdd: lambda self, node: self._shifted(node, 1),
    exp.TimestampSub: lambda self, node: self._shifted(node, -1),
    exp.TsOrDsAdd: lambda self, node: self._shifted(node, 1),
    exp.AddMonths: Constants._months,
    exp.Add: Constants._sum,
    exp.Sub: Constants._sum,
    exp.Mul: Constants._product,
    exp.Anonymous: Constants._call,
}
