"""Names of OpenTelemetry in Prometheus' spelling, by the rules of Prometheus' own OTLP receiver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.promql.labels import Labels, make_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PARTS",
    "Metric",
    "base_labels",
    "translate_label",
    "translate_name",
    "translate_unit",
    "unescape_name",
    "write_name_pattern",
]

_UNITS = {
    "d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
    "ns": "nanoseconds", "By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes",
    "TiBy": "tibibytes", "KBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
    "m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams", "Cel": "celsius",
    "Hz": "hertz", "1": "", "%": "percent",
}  # fmt: skip
_PER_UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}
_SEPARATORS = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_LABEL = re.compile(r"[^a-zA-Z0-9]")
_CODE = re.compile(r"_([0-9a-fA-F]{0,6})_")
_ESCAPED = re.compile(rf"(?:[^_]|{_CODE.pattern})*")
_MOVED = ("total", "ratio")  # words that a name has at its end, wherever the metric has them
_MAX_WORDS = 40  # of a name, in a pattern
DELTA = 1

# Series that a metric of each type becomes: the end of their names.
PARTS: Mapping[str, tuple[str, ...]] = {
    "gauge": ("",),
    "sum": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "exponential_histogram": ("",),
    "summary": ("", "_count", "_sum"),
}
PROMETHEUS_TYPES = {
    "gauge": "gauge",
    "histogram": "histogram",
    "exponential_histogram": "histogram",
    "summary": "summary",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric of the lake: what makes its name in Prometheus."""

    name: str
    kind: str
    unit: str = ""
    is_monotonic: bool = False
    is_delta: bool = False

    @property
    def prometheus_type(self) -> str:
        """Return the type that Prometheus' metadata has."""
        if self.kind == "sum":
            return "counter" if self.is_monotonic else "gauge"
        return PROMETHEUS_TYPES.get(self.kind, "unknown")


def translate_name(metric: Metric) -> str:
    """Return the name with its unit and type, such as `_seconds` and `_total`.

    >>> translate_name(Metric("http.server.request.duration", "histogram", "s"))
    'http_server_request_duration_seconds'
    >>> translate_name(Metric("requests", "sum", "{request}", is_monotonic=True))
    'requests_total'
    """
    tokens = [word for word in _SEPARATORS.split(metric.name) if word]
    main, _, per = metric.unit.partition("/")
    main_words, per_words = _unit_words(main, _UNITS), _unit_words(per, _PER_UNITS)
    if main_words and main_words not in tokens:
        tokens += [word for word in main_words.split("_") if word]
    if per_words and per_words not in tokens:
        tokens += ["per", *per_words.split("_")]
    if metric.kind == "sum" and metric.is_monotonic:
        tokens = [*(word for word in tokens if word != "total"), "total"]
    if metric.kind == "gauge" and metric.unit == "1":
        tokens = [*(word for word in tokens if word != "ratio"), "ratio"]
    name = "_".join(tokens)
    return f"_{name}" if name[:1].isdigit() else name


def write_name_pattern(name: str) -> str | None:
    """Return a regular expression that all metrics match whose series may have a name, or `None` for long names.

    The words of such a metric begin those of the name: units and types only add words at the end. Others match, too.

    >>> bool(re.fullmatch(write_name_pattern("http_requests_total"), "http.requests"))
    True
    >>> bool(re.fullmatch(write_name_pattern("http_requests_total"), "http.errors"))
    False
    """
    words = [word for word in _SEPARATORS.split(name) if word and word not in _MOVED]
    if len(words) > _MAX_WORDS:
        return None
    gap, moved = "[^a-zA-Z0-9:]", "|".join(_MOVED)
    pattern = ""
    for word in reversed(words[1:]):
        pattern = f"(?:{gap}+(?:(?:{moved}){gap}+)*{re.escape(word)}{pattern})?"
    first = f"(?:{re.escape(words[0])}{pattern})?" if words else ""
    return f"{gap}*(?:(?:{moved}){gap}+)*{first}(?:{gap}*(?:{moved}))*{gap}*"


def translate_unit(unit: str) -> str:
    """Return the words of a unit.

    >>> translate_unit("s"), translate_unit("By/s"), translate_unit("{request}")
    ('seconds', 'bytes_per_second', '')
    """
    main, _, per = unit.partition("/")
    words = [_unit_words(main, _UNITS)]
    if per_words := _unit_words(per, _PER_UNITS):
        words += ["per", per_words]
    return "_".join(word for word in words if word)


def _unit_words(unit: str, known: Mapping[str, str]) -> str:
    plain = unit.strip()
    if not plain or "{" in plain or "}" in plain:
        return ""
    return _SEPARATORS.sub("_", known.get(plain, plain)).strip("_")


def translate_label(name: str) -> str:
    """Return the name of an attribute as a label, by the default settings of Prometheus' OTLP receiver.

    >>> translate_label("service.name"), translate_label("1st"), translate_label("_x"), translate_label("__x__")
    ('service_name', 'key_1st', 'key_x', '__x__')
    """
    label = _NOT_LABEL.sub("_", name)
    if label[:1].isdigit():
        return f"key_{label}"
    return f"key{label}" if label.startswith("_") and not label.startswith("__") else label


def unescape_name(name: str) -> str:
    """Return a name whose special characters a client wrote as code points, or the name itself if it is not escaped.

    >>> unescape_name("U__service_2e_name"), unescape_name("U__a__b"), unescape_name("U__a_zz_")
    ('service.name', 'a_b', 'U__a_zz_')
    """
    if not name.startswith("U__"):
        return name
    text = name[3:]
    if not _ESCAPED.fullmatch(text):
        return name
    codes = [int(code, 16) for code in _CODE.findall(text) if code]
    if any(code > 0x10FFFF or 0xD800 <= code <= 0xDFFF for code in codes):
        return name
    return _CODE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "_", text)


def base_labels(attributes: Mapping[str, str], resource: Mapping[str, str]) -> Labels:
    """Return the labels of a series without its name.

    All attributes of the resource are labels, and those of the point win. Keys that become the same label join their
    values with `;`. `job` is the service with its namespace, `instance` its instance id.
    """
    labels = _translate_all(resource) | {name: value for name, value in _translate_all(attributes).items() if value}
    service = resource.get("service.name")
    if service is not None:
        namespace = resource.get("service.namespace")
        labels["job"] = service if namespace is None else f"{namespace}/{service}"
    instance = resource.get("service.instance.id", "")
    if instance:
        labels["instance"] = instance
    return make_labels(labels)


def _translate_all(attributes: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(attributes):
        label, value = translate_label(name), attributes[name]
        found[label] = f"{found[label]};{value}" if label in found else value
    return found
