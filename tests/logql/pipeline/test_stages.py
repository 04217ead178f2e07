"""Stages of pipelines: labels that collide, errors, formats, hostile input."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.logql.language.parser import parse_selector
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.pipeline.entry import Entry
from neve.logql.pipeline.logfmt_parser import read_pairs

SECOND = 10**9


def run(
    stages: str, line: str, stream: dict[str, str] | None = None, metadata: dict[str, str] | None = None
) -> list[Entry]:
    """Return what is left of a line."""
    query = parse_selector(f'{{app="a"}} {stages}')
    entry = Entry.make(1_500_000_000 * SECOND + 123_456_789, line, {"app": "a", **(stream or {})}, metadata or {})
    return run_stages(compile_stages(query.stages), [entry])


def labels(stages: str, line: str, **stream: str) -> dict[str, str]:
    """Return the labels that stages add."""
    [entry] = run(stages, line, stream)
    return {name: value for name, value in entry.labels().items() if name != "app" and name not in stream}


def test_json() -> None:
    """Nested keys are joined, arrays and nulls left out, and the first of two equal keys wins."""
    line = '{"a":{"b.c":1,"d":[1]},"e":null,"f":"x\\ny","1st":true,"f":"z"}'
    assert labels("| json", line) == {"a_b_c": "1", "f": "x\ny", "_1st": "true"}


def test_collisions() -> None:
    """A parsed label that the stream or the line has gets a suffix."""
    [entry] = run("| json", '{"pod":"p","who":"q"}', {"pod": "s"}, {"who": "m"})
    assert (entry.get("pod"), entry.get("pod_extracted"), entry.get("who_extracted")) == ("s", "p", "q")


def test_broken_json() -> None:
    """A line that is no JSON stays, with an error and the values before the mistake."""
    found = labels("| json", '{"a":1,"b":')
    assert (found["a"], found["__error__"]) == ("1", "JSONParserErr")
    assert run('| json | __error__=""', "no json") == []


def test_json_expressions() -> None:
    """Paths select members and elements; an absent value is an empty label."""
    line = '{"a":{"b":[{"c":"x"},2]},"d":{"e":1}}'
    found = labels('| json x="a.b[0].c", y="a[\\"b\\"][1]", z="nope", w="d"', line)
    assert found == {"x": "x", "y": "2", "z": "", "w": '{"e":1}'}


def test_deep_json() -> None:
    """Deep nesting is an error of the line, and not of the query."""
    assert labels("| json", '{"a":' * 5000 + "1" + "}" * 5000)["__error__"] == "JSONParserErr"
    assert labels("| json", '{"a":' + "[" * 5000)["__error__"] == "JSONParserErr"


def test_logfmt() -> None:
    """Quoted values, bare keys and mistakes are read as in Loki."""
    line = 'a=1 b="x \\"y\\"" c d= "bad e=5 f=g=h'
    assert labels("| logfmt", line) == {"a": "1", "b": 'x "y"', "e": "5"}
    assert labels("| logfmt --keep-empty", "c d=") == {"c": "", "d": ""}
    assert labels("| logfmt --strict", "a=1 b=c=d")["__error__"] == "LogfmtParserErr"
    assert labels('| logfmt x="a", b', "a=1") == {"x": "1", "b": ""}


@given(st.text(max_size=200))
def test_logfmt_ends(line: str) -> None:
    """Every text is read to its end."""
    assert len(list(read_pairs(line))) <= len(line) + 1


def test_other_parsers() -> None:
    """Patterns, regular expressions and packed lines give labels; packed lines replace the line."""
    line = '10.0.0.1 - "GET /a" 200'
    assert labels('| pattern `<ip> - "<method> <_>" <status>`', line) == {
        "ip": "10.0.0.1",
        "method": "GET",
        "status": "200",
    }
    assert labels(r"| regexp `(?P<method>[A-Z]+) (\S+)`", line) == {"method": "GET"}
    [entry] = run("| unpack", '{"pod":"p","_entry":"hello","n":1}')
    assert (entry.line, entry.get("pod"), entry.get("n")) == ("hello", "p", None)


def test_formats() -> None:
    """Templates see labels, the line and its time; labels are renamed, dropped and kept."""
    [entry] = run('| logfmt | line_format `{{.a | ToUpper}} {{__line__}} {{__timestamp__ | date "2006-01-02"}}`', "a=x")
    assert entry.line == "X a=x 2017-07-14"
    assert labels('| logfmt | label_format b=a,c=`{{.a}}{{.d | default "-"}}`', "a=x") == {"b": "x", "c": "-"}
    assert labels("| logfmt | drop a, b=`2`", "a=1 b=2 c=3") == {"c": "3"}
    assert labels("| logfmt | keep a", "a=1 b=2", pod="p") == {"a": "1"}
    assert run("| decolorize", "\x1b[31mred\x1b[0m")[0].line == "red"


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ('{{ substr 1 3 "abcd" }}', "bc"),
        ('{{ trunc -2 "abcd" }}|{{ alignRight 6 "abcd" }}|{{ alignLeft 2 "abcd" }}', "cd|  abcd|ab"),
        ("{{ add 1 2 3 }} {{ div 7 2 }} {{ mod -7 2 }} {{ mulf 1.5 2 }}", "6 3 -1 3"),
        ('{{ regexReplaceAll "a(.)" "abac" "<$1>" }} {{ count "a" "banana" }}', "<b><c> 3"),
        ('{{ duration_seconds "1m30s" }} {{ bytes "2KB" }}', "90 2000"),
        ('{{ b64enc "x" }} {{ "eA==" | b64dec }} {{ urlencode "a b" }}', "eA== x a+b"),
        ('{{ (unixToTime "1500000000").Nope }}', ""),
        ('{{ with fromJson "{\\"a\\":[1,2]}" }}{{ range .a }}[{{ . }}]{{ end }}{{ end }}', "[1][2]"),
        ('{{ if hasPrefix "a" "ab" }}yes{{ else }}no{{ end }}', "yes"),
    ],
)
def test_functions(template: str, result: str) -> None:
    """Functions of templates have Loki's results; a mistake at run time keeps the line, with an error."""
    [entry] = run(f"| line_format `{template}`", "before")
    if result:
        assert entry.line == result
    else:
        assert (entry.line, entry.error) == ("before", "TemplateFormatErr")


def test_label_filters() -> None:
    """Numbers, durations, sizes and addresses are compared by value; other texts keep the line, with an error."""
    assert run("| logfmt | took > 1s and size <= 2KiB and n != 3", "took=1.5s size=2048 n=4")
    assert not run("| logfmt | took > 1s", "took=900ms")
    assert not run("| logfmt | took > 1s", "other=1")
    assert labels("| logfmt | took > 1s", "took=soon")["__error__"] == "LabelFilterErr"
    assert run('| logfmt | ip=ip("10.0.0.0/8")', "ip=10.1.2.3")
    assert run('|= ip("fe80::1-fe80::9")', "from fe80::5 to")


def test_regular_expressions_are_linear() -> None:
    """A pattern that would take a backtracking matcher for ever takes no time."""
    began = time.process_time()
    assert run("|~ `(a+)+$`", "a" * 5000 + "b") == []
    assert labels("| regexp `(?P<x>(a+)+)c`", "a" * 5000) == {}
    assert time.process_time() - began < 5
