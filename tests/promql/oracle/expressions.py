"""Random PromQL over the metrics of `telemetry.py`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.promql.oracle.telemetry import END_MS, START_MS

COUNTERS = ("http_requests_total", "latency_seconds_count", "latency_seconds_sum", "latency_seconds_bucket", "old_sum")
GAUGES = ("memory_bytes", "load_ratio", "queue_length", "old", "target_info")
NATIVE = ("size_bytes",)
LABELS = ("job", "instance", "host_name", "region", "http_path", "code", "kind", "le")
MATCHERS = (
    'job="shop/cart"',
    'job!="mail"',
    'instance=~"c.|m1"',
    'region=""',
    'region!~"e.*"',
    'host_name=~".+"',
    'code="200"',
    'service_name="cart"',
    'le=~"0.*|\\\\+Inf"',
)
OF_COUNTER = ("rate", "increase", "irate", "resets", "changes", "delta")
OF_RANGE = (
    "sum_over_time",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "last_over_time",
    "first_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "present_over_time",
    "mad_over_time",
    "deriv",
    "delta",
    "idelta",
    "changes",
    "ts_of_max_over_time",
    "ts_of_last_over_time",
)
OF_NATIVE = ("histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar")
OF_VECTOR = (
    "abs", "ceil", "floor", "exp", "ln", "log2", "sqrt", "sgn", "round", "timestamp", "sort", "deg", "rad", "sin",
    "absent", "scalar", "atan",
)  # fmt: skip
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar")
OPERATORS = ("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=")
RANGES = ("1m", "2m30s", "5m", "10m", "47s")


@dataclass
class Writer:
    """Writer of random expressions."""

    chance: random.Random

    def selector(self, name: str) -> str:
        """Write a selector with up to two matchers."""
        chosen = self.chance.sample(MATCHERS, self.chance.choice((0, 0, 1, 2)))
        return f"{name}{{{','.join(chosen)}}}" if chosen else name

    def timing(self) -> str:
        """Write modifiers of time, often none."""
        at = self.chance.randint(START_MS, END_MS) / 1000
        choices = ("", "", "", "", " offset 1m", " offset -90s", f" @ {at:.3f}", " @ start()", " @ end() offset 2m")
        return self.chance.choice(choices)

    def ranged(self) -> str:
        """Write a function of a range vector."""
        pick, span = self.chance.choice, self.chance.choice(RANGES)
        kind = self.chance.randrange(7)
        if kind < 3:
            return f"{pick(OF_COUNTER)}({self.selector(pick(COUNTERS))}[{span}]{self.timing()})"
        if kind == 3:
            return f"{pick(('rate', 'increase'))}(jobs_total[2m]{pick(('', ' offset 1m'))})"
        if kind == 4:
            inner = f"{self.selector(pick(COUNTERS + GAUGES))}[{span}:{pick(('30s', '1m', '17s', ''))}]{self.timing()}"
            return f"{pick(OF_RANGE)}({inner})"
        if kind == 5:
            ratio = pick(("0.5", "0", "1", "0.9", "-1"))
            return f"quantile_over_time({ratio}, {self.selector(pick(GAUGES))}[{span}]{self.timing()})"
        return f"{pick(OF_RANGE)}({self.selector(pick(GAUGES))}[{span}]{self.timing()})"

    def native(self) -> str:
        """Write an expression of native or classic histograms."""
        pick = self.chance.choice
        source = pick(("size_bytes", "rate(size_bytes[5m])", "sum by (job) (rate(size_bytes[5m]))", "sum(size_bytes)"))
        ratio = pick(("0.4321", "0.9137", "0", "1", "0.0871", "2"))  # none that falls on a bound by rounding
        return pick(
            (
                f"{pick(OF_NATIVE)}({source})",
                f"histogram_quantile({ratio}, {source})",
                f"histogram_fraction(0.5, {pick(('2', '+Inf', '1'))}, {source})",
                f"histogram_quantile({ratio}, sum by (le, job) (rate(latency_seconds_bucket[5m])))",
                f"histogram_quantile({ratio}, latency_seconds_bucket)",
                f"avg_over_time({self.selector('size_bytes')}[2m])",
                source,
            )
        )

    def grouping(self) -> str:
        """Write `by` or `without`, or nothing."""
        names = ", ".join(self.chance.sample(LABELS, self.chance.randint(0, 3)))
        return self.chance.choice(("", f" by ({names})", f" without ({names})"))

    def aggregate(self, depth: int) -> str:
        """Write an aggregation."""
        pick, inner = self.chance.choice, self.write(depth - 1)
        kind = self.chance.randrange(6)
        if kind == 0:  # of values that are never equal: which of equal ones is chosen is not defined
            names = pick(('memory_bytes{kind=~"rss|heap"}', 'avg_over_time(memory_bytes{kind=~"rss|heap"}[2m])'))
            return f"{pick(('topk', 'bottomk'))}{self.grouping()} ({pick(('1', '2', '3'))}, {names})"
        if kind == 1:
            return f"quantile{self.grouping()} ({pick(('0.5', '0.9', '0'))}, {inner})"
        if kind == 2:  # of whole numbers: the last digit of others depends on the order of additions
            return (
                f'count_values{self.grouping()} ("value", {pick(("queue_length", "http_requests_total", "old_sum"))})'
            )
        return f"{pick(AGGREGATIONS)}{self.grouping()} ({inner})"

    def binary(self, depth: int) -> str:
        """Write an operation of two vectors, or of a vector and a number."""
        pick = self.chance.choice
        left = self.write(depth - 1)
        if self.chance.random() < 0.4:
            return f"({left}) {pick(OPERATORS)} {pick(('2', '0.5', '-3', 'time()', 'minute()', 'scalar(old_sum)'))}"
        if self.chance.random() < 0.4:
            return f"({left}) {pick(('and', 'or', 'unless'))} on (job, instance) ({self.write(depth - 1)})"
        names = ", ".join(self.chance.sample(("job", "instance", "host_name"), 2))
        left, right = (f"{pick(AGGREGATIONS)} by ({names}) ({self.write(depth - 1)})" for _ in range(2))
        bool_word = " bool" if (operator := pick(OPERATORS)) in OPERATORS[7:] and self.chance.random() < 0.5 else ""
        if self.chance.random() < 0.3:
            return f"({self.write(depth - 1)}) {operator}{bool_word} on ({names}) group_left () ({right})"
        return f"{left} {operator}{bool_word} {pick(('', f'on ({names})'))} {right}"

    def label_call(self, depth: int) -> str:
        """Write a function of labels."""
        inner, pick = self.write(depth - 1), self.chance.choice
        name = pick(LABELS)
        return pick(
            (
                f'label_replace({inner}, "x", "$1-$2", "{name}", "(.)(.*)")',
                f'label_join({inner}, "x", "-", "job", "{name}")',
                f'sort_by_label({inner}, "{name}", "job")',
                f"info({inner})",
            )
        )

    def write(self, depth: int) -> str:
        """Write an expression of at most so many levels."""
        if depth <= 0:
            pick = self.chance.choice
            name = pick((*COUNTERS, *GAUGES, *GAUGES))
            return pick((self.ranged(), self.ranged(), f"{self.selector(name)}{self.timing()}", self.native()))
        kind = self.chance.randrange(10)
        if kind < 4:
            return self.aggregate(depth)
        if kind < 6:
            return self.binary(depth)
        if kind == 6:
            return f"{self.chance.choice(OF_VECTOR)}({self.write(depth - 1)})"
        if kind == 7:
            return self.label_call(depth)
        return self.write(depth - 1)


def write_expressions(seed: int, count: int) -> list[str]:
    """Return random expressions."""
    writer = Writer(random.Random(seed))
    return [writer.write(writer.chance.randrange(4)) for _ in range(count)]
