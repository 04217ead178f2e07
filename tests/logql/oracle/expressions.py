"""Random LogQL over the lines of `telemetry.py`."""

from __future__ import annotations

import random
from dataclasses import dataclass

SELECTORS = (
    '{service_name="cart"}',
    '{service_name=~"cart|pay"}',
    '{service_name="cart", k8s_pod_name="cart-1"}',
    '{service_name="pay"}',
    '{service_name="unknown_service"}',
    '{service_name=~".+", k8s_pod_name=""}',
    '{service_namespace!="", k8s_pod_name!~".*2"}',
    '{service_name=~".+"}',
)
LINE_FILTERS = (
    '|= "GET"',
    '!= "GET"',
    '|~ "(?i)timeout|paid"',
    '!~ "status.:(200|204)"',
    '|= "ann" or "bob"',
    '|> "<_>GET<_>"',
    '!> "<_> 404 <_>"',
    '|= ip("10.0.1.0/24")',
    "|= `eve smith`",
)
JSON = (
    "| json",
    '| json method="method", who="user.name"',
    '| json code="status"',
    "| json | drop user_name, user_id",
)
LOGFMT = ("| logfmt", '| logfmt user, cost="amount"', "| logfmt --strict", "| logfmt | keep user, status")
PLAIN = (
    '| pattern "<ip> - <method> <path> <status> <size>b <_>"',
    r"| regexp `(?P<method>[A-Z]+) (?P<path>\S+) (?P<status>\d+)`",
)
FILTERS = (
    '| detected_level="error"',
    '| severity_text!="INFO"',
    '| http_route=~"/cart.*"',
    "| retry_count > 0",
    '| trace_id!=""',
    '| host_name="h1" or retry_count=2',
)
PARSED_FILTERS = (
    "| status >= 400",
    '| status=200 and method="GET"',
    "| took > 50ms",
    "| size >= 10KB",
    '| user_name=~"a.*|b.*"',
    '| __error__=""',
    '| user="ann" or status!=200',
)
FORMATS = (
    '| line_format "{{.method}} {{.status}} {{.user_name | ToUpper}}"',
    '| label_format route=http_route, kind="{{.method}}-{{.status}}"',
    "| line_format `{{ __line__ | trunc 10 }}`",
    "| decolorize",
)
RANGE_FUNCTIONS = ("rate", "count_over_time", "bytes_rate", "bytes_over_time")
UNWRAPPED = ("sum_over_time", "avg_over_time", "max_over_time", "min_over_time", "first_over_time", "last_over_time",
             "stddev_over_time", "stdvar_over_time", "rate")  # fmt: skip
UNWRAPS = ("duration(took)", "duration_seconds(took)", "status", "retry_count", "bytes(size)", "amount", "user_id")
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "stddev", "stdvar")
LABELS = ("service_name", "k8s_pod_name", "detected_level", "method", "status", "user", "http_route", "host_name")
RANGES = ("1m", "90s", "5m", "13m")


@dataclass
class Writer:
    """Writer of random queries."""

    chance: random.Random

    def log(self) -> str:
        """Return a query of lines."""
        return self.pipeline(self.chance.choice(SELECTORS), has_formats=True)

    def pipeline(self, selector: str, *, has_formats: bool) -> str:
        """Return a selector with stages."""
        chance, stages = self.chance, [selector]
        stages += chance.sample(LINE_FILTERS, chance.choice((0, 0, 1, 1, 2)))
        stages += chance.sample(FILTERS, chance.choice((0, 0, 1)))
        if chance.random() < 0.7:
            stages.append(chance.choice((*JSON, *LOGFMT, *PLAIN)))
            stages += chance.sample(PARSED_FILTERS, chance.choice((0, 1, 1, 2)))
            if has_formats:
                stages += chance.sample(FORMATS, chance.choice((0, 0, 1)))
        return " ".join(stages)

    def grouping(self) -> str:
        """Return a grouping."""
        names = ", ".join(self.chance.sample(LABELS, self.chance.choice((1, 1, 2))))
        return f"{self.chance.choice(('by', 'by', 'without'))} ({names})"

    def range(self) -> str:
        """Return a range aggregation."""
        chance = self.chance
        text = self.pipeline(chance.choice(SELECTORS), has_formats=False)
        offset = chance.choice(("", "", "", " offset 2m"))
        range_ = f"[{chance.choice(RANGES)}]{offset}"
        if chance.random() < 0.4:
            unwrap = f'| unwrap {chance.choice(UNWRAPS)} | __error__=""'
            function = chance.choice((*UNWRAPPED, "quantile_over_time"))
            if function == "quantile_over_time":
                return f"quantile_over_time(0.9, {text} {unwrap} {range_}) by (service_name)"
            group = "" if function in {"sum_over_time", "rate"} else f" {self.grouping()}"
            return f"{function}({text} {unwrap} {range_}){group}"
        return f'{chance.choice(RANGE_FUNCTIONS)}({text} | __error__="" {range_})'

    def metric(self) -> str:
        """Return a query of values."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.3:
            return self.range()
        if kind < 0.8:
            return f"{chance.choice(AGGREGATIONS)} {self.grouping()} ({self.range()})"
        if kind < 0.9:
            return f"{chance.choice(('topk', 'bottomk'))}(100, sum {self.grouping()} ({self.range()}))"
        group = f"by ({chance.choice(LABELS)})"
        operator = chance.choice(("+", "-", "*", "/", ">", "<=", "==", "and", "or", "unless"))
        return f"sum {group} ({self.range()}) {operator} sum {group} ({self.range()})"


def write_queries(seed: int, count: int) -> list[tuple[str, bool]]:
    """Return queries, and whether each has values and not lines."""
    chance = random.Random(f"queries {seed}")
    writer = Writer(chance)
    found = []
    for _ in range(count):
        is_metric = chance.random() < 0.6
        found.append((writer.metric() if is_metric else writer.log(), is_metric))
    return found
