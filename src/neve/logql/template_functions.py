"""Functions of the templates in `line_format` and `label_format`, as Loki and Sprig have them."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from neve.lexical.go_template.builtin_functions import is_true
from neve.lexical.matchers import RegexError, Template, validate_regex
from neve.lexical.units import UnitError, parse_bytes, parse_float, parse_go_duration
from neve.logql.go_time import GoTime, find_zone, parse_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FUNCTIONS", "GoTime"]

_MAX_CHARS = 1 << 20
_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,18})(?:\.0*)?\s*")
_UNIX_UNITS = {5: 86_400 * 10**9, 10: 10**9, 13: 10**6, 16: 1000, 19: 1}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"wrong type for value; expected string; got {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else 0
    found = _INTEGER.fullmatch(value) if isinstance(value, str) else None
    return int(found[1]) if found else 0


def _float(value: Any) -> float:
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        return parse_float(value.strip()) if isinstance(value, str) else 0.0
    except UnitError:
        return 0.0


def _wrap(value: int) -> int:
    """Return an integer with 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _fold(combine: Callable[[Any, Any], Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(first: Any, *others: Any) -> Any:
        total = convert(first)
        for other in others:
            total = combine(total, convert(other))
        return _wrap(total) if isinstance(total, int) else total

    return call


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise ValueError("integer divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)


def _round(value: Any, digits: Any, half: Any = 0.5) -> float:
    scale = 10 ** min(_integer(digits), 300)
    scaled = _float(value) * scale
    whole = math.floor(scaled) if scaled >= 0 else math.ceil(scaled)
    if abs(scaled - whole) >= _float(half):
        whole += 1 if scaled >= 0 else -1
    return float(whole / scale)


def _repeat(count: int, text: str) -> str:
    if _integer(count) * len(_text(text)) > _MAX_CHARS:
        raise ValueError(f"the result has more than {_MAX_CHARS:,} characters")
    return text * _integer(count)


def _indent(spaces: int, text: str) -> str:
    pad = _repeat(spaces, " ")
    return pad + _text(text).replace("\n", "\n" + pad)


def _replace_some(text: str, old: str, new: str, count: int) -> str:
    return _text(text).replace(old, new, count)


def _truncate(count: int, text: str) -> str:
    if count < 0:
        return _text(text)[count:] if len(text) + count > 0 else text
    return _text(text)[:count]


def _substring(start: int, end: int, text: str) -> str:
    if start < 0:
        return _text(text)[: max(end, 0)]
    return _text(text)[start:] if end < 0 or end > len(text) else text[start:end]


def _align(text: str, count: int, *, is_left: bool) -> str:
    if count < 0:
        return _text(text)
    if count > _MAX_CHARS:
        raise ValueError(f"the result has more than {_MAX_CHARS:,} characters")
    if is_left:
        return _text(text).ljust(count)[:count]
    return _text(text).rjust(count)[-count:] if count else ""


def _replace_regex(pattern: str, text: str, replacement: str) -> str:
    return Template(_text(pattern), _text(replacement)).substitute(_text(text))


def _replace_literal(pattern: str, text: str, replacement: str) -> str:
    return Template(_text(pattern), _text(replacement).replace("$", "$$")).substitute(_text(text))


def _count(pattern: str, text: str) -> int:
    try:
        validate_regex(_text(pattern))
    except RegexError as error:
        raise ValueError(str(error)) from None
    found: int = pc.count_substring_regex(pa.array([_text(text)], pa.string()), pattern=pattern)[0].as_py()
    return found


def _decode_base64(text: str) -> str:
    try:
        return base64.b64decode(_text(text) + "=" * (-len(text) % 4), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return "illegal base64 data"


def _read_json(text: str) -> Any:
    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: convert(one) for key, one in value.items()}
        if isinstance(value, list):
            return [convert(one) for one in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    try:
        return convert(json.loads(_text(text)))
    except (ValueError, RecursionError):
        return None


def _unix_to_time(text: str) -> GoTime:
    unit = _UNIX_UNITS.get(len(_text(text)))
    if unit is None or not text.lstrip("-").isdigit():
        raise ValueError(f"unable to parse time '{text}'")
    return GoTime(int(text) * unit)


def _as_time(value: Any) -> GoTime:
    if isinstance(value, GoTime):
        return value
    if isinstance(value, int):
        return GoTime(value * 10**9)
    raise ValueError("expected a time")


def _title(text: str) -> str:
    return re.sub(r"\b\w", lambda found: found[0].upper(), _text(text))


def _to_date(layout: str, text: str, zone: str = "UTC") -> GoTime:
    return parse_layout(_text(layout), _text(text), find_zone(zone)) or GoTime(-62_135_596_800 * 10**9)


def _default(fallback: Any, *given: Any) -> Any:
    return given[0] if given and is_true(given[0]) else fallback


def _seconds(text: str) -> float:
    return parse_go_duration(_text(text)) / 1e9


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ToLower": lambda text: _text(text).lower(),
    "ToUpper": lambda text: _text(text).upper(),
    "Replace": _replace_some,
    "Trim": lambda text, chars: _text(text).strip(chars),
    "TrimLeft": lambda text, chars: _text(text).lstrip(chars),
    "TrimRight": lambda text, chars: _text(text).rstrip(chars),
    "TrimPrefix": lambda text, prefix: _text(text).removeprefix(prefix),
    "TrimSuffix": lambda text, suffix: _text(text).removesuffix(suffix),
    "TrimSpace": lambda text: _text(text).strip(),
    "regexReplaceAll": _replace_regex,
    "regexReplaceAllLiteral": _replace_literal,
    "count": _count,
    "urldecode": lambda text: unquote_plus(_text(text)),
    "urlencode": lambda text: quote_plus(_text(text)),
    "bytes": lambda text: float(parse_bytes(_text(text))),
    "duration": _seconds,
    "duration_seconds": _seconds,
    "unixEpochMillis": lambda moment: str(_as_time(moment).nanoseconds // 1_000_000),
    "unixEpochNanos": lambda moment: str(_as_time(moment).nanoseconds),
    "unixEpoch": lambda moment: str(_as_time(moment).nanoseconds // 10**9),
    "toDateInZone": lambda layout, zone, text: _to_date(layout, text, zone),
    "toDate": _to_date,
    "date": lambda layout, moment: _as_time(moment).format(_text(layout)),
    "now": lambda: GoTime(time.time_ns()),
    "unixToTime": _unix_to_time,
    "alignLeft": lambda count, text: _align(text, count, is_left=True),
    "alignRight": lambda count, text: _align(text, count, is_left=False),
    "b64dec": _decode_base64,
    "b64enc": lambda text: base64.b64encode(_text(text).encode()).decode(),
    "lower": lambda text: _text(text).lower(),
    "upper": lambda text: _text(text).upper(),
    "title": _title,
    "trunc": _truncate,
    "substr": _substring,
    "contains": lambda part, text: _text(part) in _text(text),
    "hasPrefix": lambda prefix, text: _text(text).startswith(prefix),
    "hasSuffix": lambda suffix, text: _text(text).endswith(suffix),
    "indent": _indent,
    "nindent": lambda spaces, text: "\n" + _indent(spaces, text),
    "replace": lambda old, new, text: _text(text).replace(old, new),
    "repeat": _repeat,
    "trim": lambda text: _text(text).strip(),
    "trimAll": lambda chars, text: _text(text).strip(chars),
    "trimSuffix": lambda suffix, text: _text(text).removesuffix(suffix),
    "trimPrefix": lambda prefix, text: _text(text).removeprefix(prefix),
    "int": _integer,
    "float64": _float,
    "add": _fold(lambda left, right: left + right, _integer),
    "sub": lambda left, right: _wrap(_integer(left) - _integer(right)),
    "mul": _fold(lambda left, right: left * right, _integer),
    "div": lambda left, right: _divide(_integer(left), _integer(right)),
    "mod": lambda left, right: _remainder(_integer(left), _integer(right)),
    "addf": _fold(lambda left, right: left + right, _float),
    "subf": _fold(lambda left, right: left - right, _float),
    "mulf": _fold(lambda left, right: left * right, _float),
    "divf": _fold(_divide_floats, _float),
    "max": _fold(max, _integer),
    "min": _fold(min, _integer),
    "maxf": _fold(max, _float),
    "minf": _fold(min, _float),
    "ceil": lambda value: float(math.ceil(_float(value))) if math.isfinite(_float(value)) else _float(value),
    "floor": lambda value: float(math.floor(_float(value))) if math.isfinite(_float(value)) else _float(value),
    "round": _round,
    "fromJson": _read_json,
    "default": _default,
}
