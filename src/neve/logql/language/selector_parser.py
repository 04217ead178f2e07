"""Parse selectors of streams and the stages after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lexical.matchers import Matcher, MatchKind, RegexError, validate_regex
from neve.lexical.units import UnitError, parse_float
from neve.logql.language import syntax
from neve.logql.language.syntax import (
    BytesFilter,
    Combination,
    DurationFilter,
    Extraction,
    IpFilter,
    LabelCondition,
    LabelFilter,
    LineFilter,
    LogQuery,
    NumberFilter,
    Stage,
    StringFilter,
)
from neve.logql.language.tokens import fail
from neve.logql.pipeline.compilation import check_stage
from neve.logql.pipeline.ip_filter import IpError, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.errors import InvalidExpression
    from neve.logql.language.tokens import LogToken

__all__ = ["SelectorParser"]

_LINE_OPERATORS = frozenset({"|=", "!=", "|~", "!~", "|>", "!>"})
_COMPARISONS = {"=": "==", "==": "==", "!=": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_EMPTY = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)
_MAX_DEPTH = 60
_MAX_STAGES = 100
_MAX_MATCHERS = 100


@dataclass(slots=True)
class SelectorParser:
    """Place in the tokens of a query, and what may follow there."""

    text: str
    tokens: list[LogToken]
    at: int = 0
    depth: int = 0

    @property
    def token(self) -> LogToken:
        """Return the current token."""
        return self.tokens[self.at]

    @property
    def next(self) -> LogToken:
        """Return the token after the current one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    @property
    def is_stage(self) -> bool:
        """Return whether a stage begins here."""
        return self.token.kind == "operator" and (self.token.text == "|" or self.token.text in _LINE_OPERATORS)

    def advance(self) -> None:
        """Go to the next token."""
        self.at += 1

    def fail(self, message: str) -> InvalidExpression:
        """Return the error of this place."""
        return fail(self.text, self.token.start, message)

    def fail_unexpected(self, expected: str = "") -> InvalidExpression:
        """Return the error of a token that may not stand here."""
        message = f"syntax error: unexpected {self.token.describe()}"
        return self.fail(f"{message}, expecting {expected}" if expected else message)

    def enter(self) -> None:
        """Count a level of nesting."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.fail(f"the query is nested deeper than {_MAX_DEPTH} levels")

    def expect(self, text: str) -> None:
        """Take a punctuation mark."""
        if self.token.kind != "operator" or self.token.text != text:
            raise self.fail_unexpected(text)
        self.advance()

    def expect_name(self) -> str:
        """Take an identifier."""
        if self.token.kind != "name":
            raise self.fail_unexpected("IDENTIFIER")
        name = self.token.text
        self.advance()
        return name

    def expect_string(self) -> str:
        """Take a quoted text."""
        if self.token.kind != "string":
            raise self.fail_unexpected("STRING")
        found = str(self.token.value)
        self.advance()
        return found

    def accept_keyword(self, word: str) -> bool:
        """Take a keyword if it stands here."""
        if self.token.kind != "keyword" or self.token.value != word:
            return False
        self.advance()
        return True

    def validate_regex(self, pattern: str, prefix: str = "") -> None:
        """Raise `InvalidExpression` for a regular expression that RE2 can't compile."""
        try:
            validate_regex(pattern)
        except RegexError as error:
            raise self.fail(f"{prefix}{error}") from None

    def parse_log_query(self) -> LogQuery:
        """Parse a selector and its stages."""
        matchers = self.parse_matchers()
        return LogQuery(matchers, tuple(self.parse_stages()))

    def parse_matchers(self) -> tuple[Matcher, ...]:
        """Parse a selector in braces."""
        at = self.token.start
        self.expect("{")
        found: list[Matcher] = []
        while self.token.text != "}" or self.token.kind != "operator":
            if found:
                self.expect(",")
            found.append(self.parse_matcher())
            if len(found) > _MAX_MATCHERS:
                raise self.fail(f"the selector has more than {_MAX_MATCHERS} matchers")
        self.advance()
        if not any(_is_selective(one) for one in found):
            raise fail(self.text, at, _EMPTY)
        return tuple(found)

    def parse_matcher(self) -> Matcher:
        """Parse `name="value"`."""
        name = self.expect_name()
        operator = self.token.text
        if operator not in {"=", "!=", "=~", "!~"}:
            raise self.fail_unexpected("=")
        self.advance()
        return self.make_matcher(name, operator, self.expect_string())

    def make_matcher(self, name: str, operator: str, value: str) -> Matcher:
        """Return a matcher whose regular expression is valid."""
        if "~" in operator:
            self.validate_regex(value)
        return Matcher(name, MatchKind(operator), value)

    def parse_stages(self) -> list[Stage]:
        """Parse all stages that follow."""
        found: list[Stage] = []
        while self.is_stage:
            if self.token.text == "|" and self.next.kind == "keyword" and self.next.value == "unwrap":
                break
            at = self.token.start
            stage = self.parse_line_filter() if self.token.text in _LINE_OPERATORS else self.parse_pipe()
            try:
                check_stage(stage)
            except ValueError as error:
                raise fail(self.text, at, str(error)) from None
            found.append(stage)
            if len(found) > _MAX_STAGES:
                raise self.fail(f"the pipeline has more than {_MAX_STAGES} stages")
        return found

    def parse_line_filter(self) -> LineFilter:
        """Parse a line filter and its alternatives."""
        operator = self.token.text
        self.advance()
        texts = [self.parse_line_text(operator)]
        while self.accept_keyword("or"):
            texts.append(self.parse_line_text(operator))
        return LineFilter(operator, tuple(texts))

    def parse_line_text(self, operator: str) -> tuple[str, bool]:
        """Parse a text or `ip("…")`."""
        if self.token.kind == "string":
            text = self.expect_string()
            if "~" in operator:
                self.validate_regex(text)
            return text, False
        if self.token.value != "ip" or self.token.kind not in {"function", "keyword"}:
            raise self.fail_unexpected("STRING")
        if operator not in {"|=", "!="}:
            raise self.fail("ip: invalid operation")
        return self.parse_address(), True

    def parse_address(self) -> str:
        """Parse `ip("…")`."""
        self.advance()
        self.expect("(")
        pattern = self.expect_string()
        try:
            parse_addresses(pattern)
        except IpError as error:
            raise self.fail(str(error)) from None
        self.expect(")")
        return pattern

    def parse_pipe(self) -> Stage:
        """Parse a stage after a pipe."""
        self.advance()
        if self.token.kind != "keyword":
            return LabelFilter(self.parse_label_condition())
        word = str(self.token.value)
        self.advance()
        parsers: dict[str, Callable[[], Stage]] = {
            "json": lambda: syntax.Json(self.parse_extractions()),
            "logfmt": self.parse_logfmt,
            "regexp": lambda: syntax.Regexp(self.expect_string()),
            "pattern": lambda: syntax.Pattern(self.expect_string()),
            "unpack": syntax.Unpack,
            "decolorize": syntax.Decolorize,
        }
        return parsers[word]() if word in parsers else self.parse_format(word)

    def parse_format(self, word: str) -> Stage:
        """Parse the stages that change labels and lines."""
        if word == "line_format":
            return syntax.LineFormat(self.expect_string())
        if word == "label_format":
            formats = [self.parse_label_format()]
            while self.token.text == ",":
                self.advance()
                formats.append(self.parse_label_format())
            return syntax.LabelFormat(tuple(formats))
        if word in {"drop", "keep"}:
            labels = [self.parse_named()]
            while self.token.text == ",":
                self.advance()
                labels.append(self.parse_named())
            return syntax.Drop(tuple(labels)) if word == "drop" else syntax.Keep(tuple(labels))
        self.at -= 1
        raise self.fail_unexpected()

    def parse_named(self) -> str | Matcher:
        """Parse a name, or a condition."""
        if self.next.text in {"=", "!=", "=~", "!~"} and self.next.kind == "operator":
            return self.parse_matcher()
        return self.expect_name()

    def parse_label_format(self) -> tuple[str, str, bool]:
        """Parse `name=source` or `name="template"`."""
        name = self.expect_name()
        self.expect("=")
        if self.token.kind == "string":
            return name, self.expect_string(), False
        return name, self.expect_name(), True

    def parse_logfmt(self) -> syntax.Logfmt:
        """Parse flags and extractions of `logfmt`."""
        flags = set()
        while self.token.kind == "flag":
            flags.add(self.token.text)
            self.advance()
        return syntax.Logfmt(self.parse_extractions(), "--strict" in flags, "--keep-empty" in flags)

    def parse_extractions(self) -> tuple[Extraction, ...]:
        """Parse `a="b.c", d`."""
        found: list[Extraction] = []
        while self.token.kind == "name":
            name = self.expect_name()
            if self.token.text == "=":
                self.advance()
                found.append(Extraction(name, self.expect_string()))
            else:
                found.append(Extraction(name, name))
            if self.token.text != ",":
                break
            self.advance()
            if self.token.kind != "name":
                raise self.fail_unexpected("IDENTIFIER")
        return tuple(found)

    def parse_label_condition(self) -> LabelCondition:
        """Parse label filters that `or` joins."""
        left = self.parse_label_conjunction()
        while self.accept_keyword("or"):
            left = Combination("or", left, self.parse_label_conjunction())
        return left

    def parse_label_conjunction(self) -> LabelCondition:
        """Parse label filters that `and`, a comma or nothing joins."""
        left = self.parse_label_operand()
        count = 1
        while True:
            is_joined = self.accept_keyword("and")
            if not is_joined and self.token.text == "," and self.token.kind == "operator":
                self.advance()
                is_joined = True
            if not is_joined and self.token.kind != "name" and self.token.text != "(":
                return left
            left = Combination("and", left, self.parse_label_operand())
            count += 1
            if count > _MAX_STAGES:
                raise self.fail(f"a label filter has more than {_MAX_STAGES} conditions")

    def parse_label_operand(self) -> LabelCondition:
        """Parse one comparison, or several in parentheses."""
        if self.token.text == "(" and self.token.kind == "operator":
            self.advance()
            self.enter()
            inside = self.parse_label_condition()
            self.depth -= 1
            self.expect(")")
            return inside
        name = self.expect_name()
        operator = self.token.text
        if self.token.kind != "operator" or operator not in {*_COMPARISONS, "=~", "!~"}:
            raise self.fail_unexpected()
        self.advance()
        return self.parse_comparison(name, operator)

    def parse_comparison(self, name: str, operator: str) -> LabelCondition:
        """Parse the right side of a comparison."""
        token = self.token
        if token.kind == "string" and operator in {"=", "!=", "=~", "!~"}:
            return StringFilter(self.make_matcher(name, operator, self.expect_string()))
        if token.value == "ip" and token.kind in {"function", "keyword"} and operator in {"=", "!="}:
            return IpFilter(name, _COMPARISONS[operator], self.parse_address())
        if operator not in _COMPARISONS:
            raise self.fail_unexpected("STRING")
        if token.kind == "duration":
            self.advance()
            return DurationFilter(name, _COMPARISONS[operator], int(token.value))
        if token.kind == "bytes":
            self.advance()
            return BytesFilter(name, _COMPARISONS[operator], int(token.value))
        return NumberFilter(name, _COMPARISONS[operator], self.parse_number())

    def parse_number(self, *, is_signed: bool = True) -> float:
        """Parse a number with its sign."""
        sign = 1.0
        if is_signed and self.token.kind == "operator" and self.token.text in {"+", "-"}:
            sign = -1.0 if self.token.text == "-" else 1.0
            self.advance()
        if self.token.kind != "number":
            raise self.fail_unexpected("NUMBER")
        token = self.token
        self.advance()
        try:
            return sign * parse_float(token.text)
        except UnitError as error:
            raise fail(self.text, token.start, f"unable to parse literal as a float: {error}") from None


def _is_selective(matcher: Matcher) -> bool:
    """Return whether a matcher rejects the empty text."""
    return not matcher.matches("")
