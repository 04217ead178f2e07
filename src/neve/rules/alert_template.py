"""Templates of labels and annotations of alerts: Prometheus' variables and functions."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

from neve.errors import QueryError
from neve.lexical.go_template.execution import Template
from neve.lexical.go_template.parser import TemplateError
from neve.lexical.go_template.printf import GoDuration, Record, type_name
from neve.lexical.literals import LiteralError, parse_duration
from neve.lexical.matchers import RegexError, search_regex
from neve.lexical.matchers import Template as RegexTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neve.promql.labels import Labels

__all__ = ["FUNCTIONS", "AlertTemplates", "check_template"]

_VARIABLES = ("$labels", "$externalLabels", "$externalURL", "$value")
_LARGE = ("k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_SMALL = ("m", "u", "n", "p", "f", "a", "z", "y")
_WORD_START = re.compile(r"(?<![\w'])[^\W\d_]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOS = 1 << 63


@dataclass(frozen=True, slots=True)
class AlertTemplates:
    """Functions and constants for the templates of one evaluation.

    `query` evaluates PromQL at the time of the evaluation.
    """

    query: Callable[[str], Sequence[tuple[Labels, Any]]]
    time_ms: int
    external_labels: Mapping[str, str]
    external_url: str = ""

    def expand(self, text: str, labels: Labels, value: Any) -> str:
        """Return the text of a template for a sample. An error becomes the text, as in Prometheus."""
        if "{{" not in text:
            return text
        fields = {
            "Labels": dict(labels),
            "ExternalLabels": dict(self.external_labels),
            "ExternalURL": self.external_url,
            "Value": value,
        }
        try:
            template = _parse(text)
            return template.execute(
                Record(fields), self._functions(), dict(zip(_VARIABLES, fields.values(), strict=True))
            )
        except TemplateError as error:
            return f"<error expanding template: {error}>"

    def _functions(self) -> dict[str, Callable[..., Any]]:
        own: dict[str, Callable[..., Any]] = {
            "query": self._query,
            "now": lambda: self.time_ms / 1000,
            "externalURL": lambda: self.external_url,
            "pathPrefix": lambda: urlsplit(self.external_url).path,
        }
        return FUNCTIONS | own

    def _query(self, text: str) -> list[Record]:
        try:
            return [Record({"Labels": dict(labels), "Value": value}) for labels, value in self.query(text)]
        except QueryError as error:
            raise ValueError(error.message) from None


def check_template(text: str) -> None:
    """Raise `TemplateError` if a text is no valid template."""
    if "{{" in text:
        _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> Template:
    return Template.parse(text, dict.fromkeys((*FUNCTIONS, *_CONTEXT_FUNCTIONS), len), _VARIABLES)


def _to_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str | GoDuration):
        raise ValueError(f"can't convert {type_name(value)} to float")
    if isinstance(value, GoDuration):
        return value.nanoseconds / 1e9
    return float(value)


def _four_digits(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return f"{value:.4g}"


def _scale_up(value: float, units: Sequence[str], base: int) -> str:
    unit = ""
    for one in units:
        if abs(value) < base:
            break
        unit = one
        value /= base
    return f"{_four_digits(value)}{unit}"


def _scale_down(value: float) -> str:
    unit = ""
    for one in _SMALL:
        if abs(value) >= 1:
            break
        unit = one
        value *= 1000
    return f"{_four_digits(value)}{unit}"


def humanize(given: Any) -> str:
    """Return a number with a metric prefix.

    >>> humanize(1234567.0), humanize(0.0042), humanize(0)
    ('1.235M', '4.2m', '0')
    """
    value = _to_float(given)
    if value == 0 or not math.isfinite(value):
        return _four_digits(value)
    return _scale_up(value, _LARGE, 1000) if abs(value) >= 1 else _scale_down(value)


def humanize_binary(given: Any) -> str:
    """Return a number with a binary prefix.

    >>> humanize_binary(1048576.0), humanize_binary(0.5)
    ('1Mi', '0.5')
    """
    value = _to_float(given)
    if abs(value) <= 1 or not math.isfinite(value):
        return _four_digits(value)
    return _scale_up(value, _BINARY, 1024)


def humanize_duration(given: Any) -> str:
    """Return seconds in days, hours, minutes and seconds, or with a metric prefix.

    >>> humanize_duration(93784.5), humanize_duration(0.0025), humanize_duration(59.9)
    ('1d 2h 3m 4s', '2.5ms', '59.9s')
    """
    value = _to_float(given)
    if not math.isfinite(value):
        return _four_digits(value)
    if value == 0:
        return "0s"
    if abs(value) < 1:
        return f"{_scale_down(value)}s"
    sign, value = ("-", -value) if value < 0 else ("", value)
    whole = int(value)
    parts = ((whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    for start, (count, _) in enumerate(parts[:3]):
        if count:
            return sign + " ".join(f"{number}{unit}" for number, unit in parts[start:])
    return f"{sign}{_four_digits(value)}s"


def humanize_percentage(given: Any) -> str:
    """Return a ratio in percent.

    >>> humanize_percentage(0.12345)
    '12.35%'
    """
    return f"{_four_digits(_to_float(given) * 100)}%"


def _to_time(given: Any) -> datetime:
    value = _to_float(given)
    if not math.isfinite(value):
        raise ValueError("value is NaN or Inf")
    if not -_MAX_NANOS <= value * 1e9 < _MAX_NANOS:
        raise ValueError(f"{value} cannot be represented as a nanoseconds timestamp since it overflows int64")
    return _EPOCH + timedelta(milliseconds=int(value * 1e9) // 1_000_000)


def humanize_timestamp(given: Any) -> Any:
    """Return seconds since 1970 as a date and time."""
    value = _to_float(given)
    return _to_time(value) if math.isfinite(value) else _four_digits(value)


def _split_address(text: str) -> tuple[str, str] | None:
    """Return host and port, or `None` if there is no port.

    >>> _split_address("[::1]:80"), _split_address("::1"), _split_address("a:80")
    (('::1', '80'), None, ('a', '80'))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return (host, port) if colon and ":" not in host and not set("[]") & set(text) else None


def strip_port(text: str) -> str:
    """Return an address without its port."""
    found = _split_address(text)
    return found[0] if found else text


def strip_domain(text: str) -> str:
    """Return an address with the first part of its host name only.

    >>> strip_domain("web1.example.org:80"), strip_domain("10.0.0.1:80")
    ('web1:80', '10.0.0.1:80')
    """
    host, port = _split_address(text) or (text, "")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        name = host.split(".")[0]
        return f"{name}:{port}" if port else name
    return text


def _first(samples: Sequence[Any]) -> Any:
    if not samples:
        raise ValueError("first() called on vector with no elements")
    return samples[0]


def _parse_duration(text: str) -> float:
    sign, plain = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * parse_duration(plain) / 1000
    except LiteralError as error:
        raise ValueError(str(error)) from None


def _match(pattern: str, text: str) -> bool:
    try:
        return search_regex(pattern, text)
    except RegexError as error:
        raise ValueError(str(error)) from None


def _replace_all(pattern: str, replacement: str, text: str) -> str:
    try:
        return RegexTemplate(pattern, replacement).substitute(text)
    except RegexError as error:
        raise ValueError(str(error)) from None


def _link(expression: str, tab: int) -> str:
    return f"/graph?g0.expr={quote_plus(expression)}&g0.tab={tab}"


_CONTEXT_FUNCTIONS = ("query", "now", "externalURL", "pathPrefix")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "first": _first,
    "value": lambda sample: sample.fields["Value"],
    "label": lambda name, sample: sample.fields["Labels"].get(name, ""),
    "strvalue": lambda sample: sample.fields["Labels"].get("__value__", ""),
    "sortByLabel": lambda name, samples: sorted(samples, key=lambda one: one.fields["Labels"].get(name, "")),
    "args": lambda *values: {f"arg{index}": value for index, value in enumerate(values)},
    "reReplaceAll": _replace_all,
    "match": _match,
    "title": lambda text: _WORD_START.sub(lambda found: found[0].upper(), text),
    "toUpper": lambda text: text.upper(),
    "toLower": lambda text: text.lower(),
    "safeHtml": lambda text: text,
    "stripPort": strip_port,
    "stripDomain": strip_domain,
    "humanize": humanize,
    "humanize1024": humanize_binary,
    "humanizeDuration": humanize_duration,
    "humanizePercentage": humanize_percentage,
    "humanizeTimestamp": humanize_timestamp,
    "toTime": _to_time,
    "toDuration": lambda given: GoDuration(int(_to_float(given) * 1e9)),
    "parseDuration": _parse_duration,
    "urlQueryEscape": quote_plus,
    "graphLink": lambda expression: _link(expression, 0),
    "tableLink": lambda expression: _link(expression, 1),
}
