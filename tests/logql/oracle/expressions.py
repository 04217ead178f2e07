"""Random LogQL over the lines of `telemetry.py`."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Lines:
    """Lines of one form: selectors that find them, and stages that mean something there."""

    selectors: tuple[str, ...]
    texts: tuple[str, ...]
    parsers: tuple[str, ...]
    filters: tuple[str, ...]
    formats: tuple[str, ...]
    unwraps: tuple[str, ...]


JSON = Lines(
    (
        '{service_name="cart"}',
        '{service_name="cart", k8s_pod_name="cart-1"}',
        '{service_namespace!="", k8s_pod_name!~".*2"}',
    ),
    ('|= "GET"', '!= "GET"', '|~ "(?i)ANN|zoë"', '!~ "status.:(200|204)"', '|= "ann" or "bob"', '|> "<_>POST<_>"'),
    (
        "| json",
        '| json method="method", who="user.name"',
        '| json code="status", status="status"',
        "| json | drop user_name, user_id",
    ),
    (
        "| status >= 400",
        '| status=200 and method="GET"',
        "| took > 250ms",
        "| size >= 10KB",
        '| user_name=~"a.*|b.*"',
        '| __error__=""',
        '| method="POST" or status!=200',
    ),
    (
        '| line_format "{{.method}} {{.status}} {{.user_name | ToUpper}}"',
        '| label_format route=http_route, kind="{{.method}}-{{.status}}"',
        "| line_format `{{ __line__ | trunc 10 }}`",
        '| label_format took="{{ .took | duration }}"',
    ),
    ("duration(took)", "duration_seconds(took)", "status", "bytes(size)", "user_id", "retry_count"),
)
LOGFMT = Lines(
    ('{service_name="pay"}', '{cloud_region=~"eu.+"}'),
    ('|= "paid"', '!= "ann"', '|~ "amount=(1|10) "', "|= `eve smith`", '!> "<_>level=info<_>"'),
    ("| logfmt", '| logfmt user, cost="amount", status', "| logfmt --strict", "| logfmt | keep user, status, took"),
    ("| status >= 400", '| user="ann" or status=200', "| took > 20ms", '| level=~"warn|error"', "| amount <= 2.5"),
    ('| line_format "{{.user}}: {{.msg | replace `order` `bill`}}"', "| label_format cost=amount, who=user"),
    ("duration(took)", "status", "amount", "retry_count"),
)
PLAIN = Lines(
    ('{service_name="unknown_service"}', '{service_name=~".+", k8s_pod_name="", cloud_region=""}'),
    ('|= ip("10.0.1.0/24")', '!> "<_> 404 <_>"', '|= "GET"', '|~ "(?i)timeout|retry"', '!~ "ok$"'),
    (
        '| pattern "<ip> - <method> <path> <status> <size>b <_>"',
        r"| regexp `(?P<method>[A-Z]+) (?P<path>\S+) (?P<status>\d+)`",
    ),
    ("| status >= 400", '| method="GET"', '| path=~"/cart.*"', '| path!="/"', '| ip=ip("10.0.0.0/23")'),
    ('| line_format "{{.path}} {{.status}}"', '| label_format verb="{{ .method | lower }}"'),
    ("status", "retry_count"),
)
ALL = Lines(
    ('{service_name=~".+"}', '{service_name=~"cart|pay"}'),
    ('|= "GET"', '!~ "[0-9]{3}ms"', '|= "status"'),
    ("| json", "| logfmt", '| json | __error__="" | logfmt | __error__=""'),
    ('| __error__=""', "| status >= 400", '| method!=""'),
    ("| decolorize", "| line_format `{{ __line__ | trunc 10 }}`"),
    ("status", "retry_count"),
)
FORMS = (JSON, JSON, LOGFMT, PLAIN, ALL)
METADATA_FILTERS = (
    '| detected_level="error"',
    '| severity_text!="INFO"',
    '| http_route=~"/cart.*"',
    "| retry_count > 0",
    '| trace_id!=""',
    '| host_name="h1" or retry_count=2',
)
RANGE_FUNCTIONS = ("rate", "count_over_time", "bytes_rate", "bytes_over_time")
GROUPED = ("avg_over_time", "max_over_time", "min_over_time", "first_over_time", "last_over_time", "stddev_over_time",
           "stdvar_over_time", "quantile_over_time")  # fmt: skip
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "stddev", "stdvar")
LABELS = ("service_name", "k8s_pod_name", "detected_level", "method", "status", "user", "http_route", "host_name")
RANGES = ("1m", "90s", "5m", "13m")


@dataclass
class Writer:
    """Writer of random queries."""

    chance: random.Random

    def log(self) -> str:
        """Return a query of lines."""
        return self.pipeline(self.chance.choice(FORMS), has_formats=True)

    def pipeline(self, lines: Lines, *, has_formats: bool) -> str:
        """Return a selector with stages."""
        chance, stages = self.chance, [self.chance.choice(lines.selectors)]
        stages += chance.sample(lines.texts, chance.choice((0, 0, 1, 1, 2)))
        stages += chance.sample(METADATA_FILTERS, chance.choice((0, 0, 1)))
        if chance.random() < 0.8:
            stages.append(chance.choice(lines.parsers))
            stages += chance.sample(lines.filters, chance.choice((0, 1, 1)))
            stages += chance.sample(lines.formats, chance.choice((0, 1)) if has_formats else 0)
        return " ".join(stages)

    def grouping(self) -> str:
        """Return a grouping."""
        names = ", ".join(self.chance.sample(LABELS, self.chance.choice((1, 1, 2))))
        return f"{self.chance.choice(('by', 'by', 'without'))} ({names})"

    def range(self) -> str:
        """Return a range aggregation."""
        chance = self.chance
        lines = chance.choice(FORMS)
        range_ = f"[{chance.choice(RANGES)}]{chance.choice(('', '', '', ' offset 2m'))}"
        if chance.random() >= 0.4:
            text = self.pipeline(lines, has_formats=False)
            return f'{chance.choice(RANGE_FUNCTIONS)}({text} | __error__="" {range_})'
        parts = (chance.choice(lines.selectors), chance.choice(lines.parsers), chance.choice(lines.filters))
        unwrapped = f'{" ".join(parts)} | unwrap {chance.choice(lines.unwraps)} | __error__="" {range_}'
        function = chance.choice((*GROUPED, "sum_over_time", "rate"))
        if function not in GROUPED:
            return f"{function}({unwrapped})"
        quantile = "0.9, " if function == "quantile_over_time" else ""
        return f"{function}({quantile}{unwrapped}) {self.grouping()}"

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
