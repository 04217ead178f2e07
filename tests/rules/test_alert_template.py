"""Functions of alert templates: results are those of Prometheus' documentation and tests."""

from typing import Any

import pytest

from neve.errors import EvaluationFailed
from neve.promql.labels import Labels
from neve.rules.alert_template import AlertTemplates

LABELS: Labels = (("instance", "web-1.example.org:80"), ("job", "shop"))
UP: list[tuple[Labels, Any]] = [((("n", "b"),), 2.0), ((("n", "a"),), 1.0)]


def query(text: str) -> list[tuple[Labels, Any]]:
    """Return samples for `up`, none for `none`, and an error for everything else."""
    if text not in {"up", "none"}:
        raise EvaluationFailed("no such series")
    return UP if text == "up" else []


def expand(text: str, value: Any = 2.5) -> str:
    """Return the text of a template."""
    templates = AlertTemplates(query, 1_500, {"cluster": "north"}, "https://example.org/prometheus")
    return templates.expand(text, LABELS, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{ $labels.job }} {{ $labels.none }} {{ $value }} {{ .Value }} {{ .Labels.job }}", "shop  2.5 2.5 shop"),
        ("{{ $externalLabels.cluster }} {{ $externalURL }} {{ externalURL }} {{ pathPrefix }}",
         "north https://example.org/prometheus https://example.org/prometheus /prometheus"),
        ('{{ range query "up" | sortByLabel "n" }}{{ .Labels.n }}={{ .Value }};{{ end }}', "a=1;b=2;"),
        ('{{ query "up" | first | value }} {{ query "up" | first | label "n" }}', "2 b"),
        ('{{ with query "none" }}some{{ else }}nothing{{ end }}', "nothing"),
        ('{{ strvalue (query "up" | first) }}', ""),
        ("{{ humanize 0.0 }} {{ humanize 1.0 }} {{ humanize 1234567.0 }} {{ humanize .12 }}", "0 1 1.235M 120m"),
        ("{{ humanize1024 0.0 }} {{ humanize1024 1048576.0 }} {{ humanize1024 .12 }}", "0 1Mi 0.12"),
        ("{{ humanizeDuration 0 }} {{ humanizeDuration 60 }} {{ humanizeDuration 93784 }} {{ humanizeDuration -1 }}",
         "0s 1m 0s 1d 2h 3m 4s -1s"),
        ("{{ humanizeDuration .1 }} {{ humanizeDuration 1.2345 }} {{ humanizeDuration 12345.678 }}",
         "100ms 1.234s 3h 25m 45s"),
        ('{{ humanizePercentage -0.22222 }} {{ humanizePercentage "0.5" }}', "-22.22% 50%"),
        ("{{ humanizeTimestamp 1435065584.128 }}", "2015-06-23 13:19:44.128 +0000 UTC"),
        ("{{ now }} {{ now | toTime }} {{ toDuration 90 }}", "1.5 1970-01-01 00:00:01.5 +0000 UTC 1m30s"),
        ('{{ parseDuration "1h2m10ms" }} {{ parseDuration "-1m" }}', "3720.01 -60"),
        ('{{ title "aa bB it\'s" }} {{ toUpper "aBc" }} {{ toLower "aBc" }}', "Aa BB It's ABC abc"),
        ('{{ match "a+" "aa" }} {{ match "a+" "b" }} {{ reReplaceAll "(a)b" "x${1}" "ab" }}', "true false xa"),
        ("{{ $labels.instance | stripPort }} {{ $labels.instance | stripDomain }}", "web-1.example.org web-1:80"),
        ('{{ stripPort "[::1]:80" }} {{ stripDomain "[::1]:80" }} {{ stripDomain "a.b" }}', "::1 [::1]:80 a"),
        ('{{ urlQueryEscape "a b&c" }} {{ tableLink "up" }}', "a+b%26c /graph?g0.expr=up&g0.tab=1"),
        ('{{ safeHtml "<b>" }}', "<b>"),
    ],
)  # fmt: skip
def test_functions(text: str, expected: str) -> None:
    """A template prints what Prometheus prints."""
    assert expand(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(float("nan"), "NaN NaN NaN NaN%"), (float("inf"), "+Inf +Inf +Inf +Inf%")]
)
def test_special_values(value: float, expected: str) -> None:
    """NaN and infinities have no prefix."""
    functions = ("humanize", "humanizeDuration", "humanizeTimestamp", "humanizePercentage")
    assert expand(" ".join(f"{{{{ {name} .Value }}}}" for name in functions), value) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{{ query "none" | first }}', "first() called on vector with no elements"),
        ('{{ query "bad" }}', "no such series"),
        ('{{ humanize "x" }}', "error calling humanize"),
        ("{{ humanize true }}", "can't convert bool to float"),
        ('{{ match "(" "x" }}', "error parsing regexp"),
        ('{{ reReplaceAll "(" "x" "y" }}', "error parsing regexp"),
        ('{{ parseDuration "x" }}', "not a valid duration string"),
        ("{{ toTime 1e300 }}", "overflows int64"),
        ("{{ value 3 }}", "error calling value"),
        ("{{ toUpper 3 }}", "error calling toUpper"),
    ],
)
def test_errors_become_the_text(text: str, message: str) -> None:
    """A template that fails prints the reason in place of its text, so that the alert is still sent."""
    found = expand(text)
    assert found.startswith("<error expanding template: 1:")
    assert message in found
