"""Templates: the results of Go's text/template, and errors with positions."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lexical.go_template.execution import Template
from neve.lexical.go_template.parser import TemplateError
from neve.lexical.go_template.printf import GoDuration, Record, format_printf, format_value

LABELS = {"x": "v", "a": "b"}
DATA = Record({"Labels": LABELS, "Value": 2.5, "List": [1, 2, 3]})

# The results are those of Go 1.26.
RESULTS = [
    ("{{ $labels.x }}|{{ $labels.nope }}", "v|"),
    ('{{ if gt .Value 1.0 }}a{{ else if eq .Labels.x "y" "v" }}b{{ else }}c{{ end }}', "a"),
    ('{{ if gt .Value 9.0 }}a{{ else if eq .Labels.x "y" "v" }}b{{ else }}c{{ end }}', "b"),
    ("{{ if gt .Value 9.0 }}a{{ else if eq .Labels.x `y` }}b{{ else }}c{{ end }}", "c"),
    ("{{ range $k, $v := .Labels }}{{ $k }}={{ $v }},{{ end }}", "a=b,x=v,"),
    ("{{ range $k, $v := .Labels -}}  {{ $k }}={{ $v }},  {{- end }}", "a=b,x=v,"),
    ("{{ range $i, $e := .List }}{{ $i }}{{ $e }}{{ else }}none{{ end }}", "011223"),
    ("{{ range .Labels.nope | len }}x{{ else }}none{{ end }}", "none"),
    ("{{ range .List }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ . }}{{ end }}{{ range 3 }}{{ . }}{{ end }}", "13012"),
    ("{{ range .List }}{{ if eq . 2 }}{{ break }}{{ end }}{{ . }}{{ end }}", "1"),
    ("{{ with .Labels.x }}{{ . }}{{ end }}{{ with .Labels.none }}a{{ else }}b{{ end }}", "vb"),
    ("{{ with .Labels.none }}a{{ else with .Labels.x }}{{ . }}{{ end }}", "v"),
    ('{{ index .Labels "x" }} {{ len .Labels }} {{ print 1 2 "a" "b" 3 }}', "v 2 1 2ab3"),
    ('{{ println "x" 1 2 }}', "x 1 2\n"),
    ('{{ "a" | printf "%s-%s" "b" }} {{ printf "%.2f" .Value }} {{ .Value }}', "b-a 2.50 2.5"),
    ("{{/* c */}}x{{- /* c */ -}} y", "xy"),
    ("{{ 'a' }} {{ 0x10 }} {{ 1e3 }} {{ true }} {{ 1.0 }}", "97 16 1000 true 1"),
    ('{{ and 1 0 }} {{ or 0 "x" }} {{ not 0 }} {{ eq 1 1 }} {{ ne "a" "b" }} {{ lt 1 2 }}', "0 x true true true true"),
    ("{{ $x := 1 }}{{ $x = 2 }}{{ $x }}{{ .Labels }}", "2map[a:b x:v]"),
    ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}", "32"),
    ('{{ slice "abcdef" 1 3 }}', "bc"),
    ('{{ html "<a>" }} {{ js "it\'s" }} {{ urlquery "a b" }}', "&lt;a&gt; it\\'s a+b"),
    ('{{ (index .Labels "x") }}', "v"),
    ("a {{- 3 }} b", "a3 b"),
    ("{{ 3 -}} b", "3b"),
    ("{{3}} {{-3}}", "3 -3"),
    ("{{ `raw` }}", "raw"),
    ('{{ "\\u00e9" }}', "é"),
    ("{{ if and (gt .Value 1.0) (lt .Value 9.0) }}x{{ end }}", "x"),
    ('{{ or .Labels.nope "dflt" }}', "dflt"),
    ('{{ or true (index .List 7) }}', "true"),
    ('{{ printf "%d" 3 }} {{ printf "%v %s" .Labels.x .Value }}', "3 v %!s(float64=2.5)"),
    ("no actions }} {", "no actions }} {"),
]  # fmt: skip

ERRORS = [
    ("{{ foo }}", '1:4: function "foo" not defined'),
    ("{{ .Value | nosuch }}", '1:13: function "nosuch" not defined'),
    ("{{ if }}{{ end }}", "1:7: missing value for if"),
    ("{{ .Labels.x", "1:1: unclosed action"),
    ("x\n{{ end }}", "2:4: unexpected {{end}}"),
    ("{{ if .Value }}", "1:4: {{if}} has no {{end}}"),
    ('{{ "abc }}', "1:4: unterminated quoted string"),
    ("{{ $nope }}", '1:4: undefined variable "$nope"'),
    ("{{ if true }}{{ $y := 1 }}{{ end }}{{ $y }}", '1:39: undefined variable "$y"'),
    ("{{ break }}", "1:4: {{break}} outside {{range}}"),
    ('{{ define "t" }}{{ end }}', "1:4: {{define}} is not supported"),
    ("{{ if true }}a{{ else }}b{{ else }}c{{ end }}", "expected {{end}}, found {{else}}"),
    ("{{ (len .Labels }}", "unclosed left parenthesis"),
    ("{{ nil }}", "1:4: nil is not a command"),
    ("{{ 1 2 }}", "1:4: can't give an argument to a value that is not a function"),
    ("{{ .Nope }}", "1:4: can't evaluate field Nope"),
    ("{{ .Labels.x.y }}", "1:4: can't evaluate field y in type string"),
    ("{{ .Value.x }}", "1:4: can't evaluate field x in type float64"),
    ("{{ if gt .Value 1 }}a{{ end }}", "1:7: error calling gt: incompatible types for comparison: float64 and int"),
    ("{{ eq .Labels.x 3 }}", "incompatible types for comparison: string and int"),
    ("{{ index .List 7 }}", "1:4: error calling index: index out of range: 7"),
    ("{{ len 3 }}", "1:4: error calling len: len of type int"),
    ("{{ len }}", "error calling len with no arguments: wrong number of arguments"),
    ("{{ ? }}", "1:4: unexpected character '?'"),
    ("{{ range .Value }}{{ end }}", "1:10: range can't iterate over 2.5"),
    ("{{ range 100 }}{{ range 100 }}" + "ab" * 100 + "{{ end }}{{ end }}", "more than 1,048,576 characters"),
    ("{{ " + "(" * 60 + "1" + ")" * 60 + " }}", "more than 50 nested actions"),
    ('{{ printf "%*d" 1 2 }}', "printf does not support"),
    ('{{ printf "%99999d" 1 }}', "a width of more than 10,000"),
]


def expand(text: str) -> str:
    """Return the text of a template for the data of these tests."""
    return Template.parse(text, {}, ("$labels",)).execute(DATA, {}, {"$labels": LABELS})


@pytest.mark.parametrize(("text", "expected"), RESULTS)
def test_results(text: str, expected: str) -> None:
    """A template gives the same text as in Go."""
    assert expand(text) == expected


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_errors(text: str, message: str) -> None:
    """A wrong template is an error with a position."""
    with pytest.raises(TemplateError) as error:
        expand(text)
    assert message in str(error.value)


def test_printf() -> None:
    """Directives print as in Go, also those that don't fit their values."""
    first = format_printf(
        "%g|%d|%s|%5.1f|%-8s|%08.3f|%x|%q|%+v|%t|%v|%e|%G",
        [1234567.0, 1.5, 2.5, 3.14159, "ab", 3.14159, "hi", 'a"b', 1.0, True, None, 12345.678, 1e-7],
    )
    expected = '1.234567e+06|%!d(float64=1.5)|%!s(float64=2.5)|  3.1|ab      |0003.142|6869|"a\\"b"|1|true|<nil>'
    assert first == expected + "|1.234568e+04|1E-07"
    assert format_printf("%d %s", [5]) == "5 %!s(MISSING)"
    assert format_printf("%d", [5, 6.0, "x"]) == "5%!(EXTRA float64=6, string=x)"
    numbers = format_printf("%x %X %c %U %o %b %5d|%-5d|%+d", [255, 255, 65, 65, 8, 5, 42, 42, 42])
    assert numbers == "ff FF A U+0041 10 101    42|42   |+42"
    assert format_printf("%.2f %6.2f%%", ["str", 12.345]) == "%!f(string=st)  12.35%"
    assert format_printf("%.3s|%.4q|%T|%p", ["abcdef", "abcdef", 1.0, 3]) == 'abc|"abcd"|float64|%!p(int=3)'
    assert format_printf("%.2f %v %s", [math.inf, math.nan, {"a": "b"}]) == "+Inf NaN map[a:b]"


def test_values() -> None:
    """Values without a directive print as with %v."""
    assert [format_value(one) for one in (1e6, 123456789.0, 100000.0, 1e-4, 1e-5, 1e20, -0.0)] == [
        "1e+06", "1.23456789e+08", "100000", "0.0001", "1e-05", "1e+20", "-0",
    ]  # fmt: skip
    durations = [90 * 10**9, 1_500_000, 3_600 * 10**9, 0, -2_500_000_000, 1500]
    assert [str(GoDuration(one)) for one in durations] == ["1m30s", "1.5ms", "1h0m0s", "0s", "-2.5s", "1.5µs"]


@given(st.text(alphabet="{}()|$.-\"`'xyz 012/*=:,%+\n", max_size=40))
def test_any_text(text: str) -> None:
    """Any text is a template or an error, and nothing else."""
    with suppress(TemplateError):
        expand(text)


@given(
    st.text(max_size=20),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.none(), st.booleans()), max_size=3),
)
def test_any_format(form: str, values: list[object]) -> None:
    """Any format prints any values, or is an error."""
    with suppress(ValueError):
        format_printf(form, values)
