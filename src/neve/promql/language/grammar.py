"""Grammar of PromQL, and its LALR parser.

The grammar is a superset of the language: `checks.py` rejects what has the right shape but the wrong types.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lark import Lark, Token, Transformer
from lark.lexer import Lexer

from neve.promql.language.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["build_parser"]

GRAMMAR = r"""
start: alternative

?alternative: conjunction
    | alternative OR modifiers conjunction -> binary
?conjunction: comparison
    | conjunction AND modifiers comparison -> binary
?comparison: sum
    | comparison COMPARE modifiers sum -> binary
?sum: product
    | sum SIGN modifiers product -> binary
?product: signed
    | product SCALE modifiers signed -> binary
?signed: power
    | SIGN signed -> unary
?power: operand
    | operand POWER modifiers signed -> binary

modifiers: is_bool matching? fill*
is_bool: BOOL?
matching: ON labels (GROUP labels?)?
fill: FILL LPAR SIGN? _number RPAR

?operand: primary
    | operand LSQB duration RSQB -> range_selector
    | operand LSQB duration COLON duration? RSQB -> subquery
    | operand OFFSET offset_value -> offset
    | operand AT SIGN? _number -> at_time
    | operand AT FUNCTION LPAR RPAR -> at_edge
    | operand ANCHORED -> extend
    | operand SMOOTHED -> extend

?primary: _number -> number
    | STRING -> text
    | selector
    | call
    | aggregate
    | LPAR alternative RPAR -> paren

selector: _metric matchers?
    | matchers
_metric: NAME | METRIC
matchers: LBRACE (matcher (COMMA matcher)* COMMA?)? RBRACE
matcher: (NAME | STRING) (EQUAL | MATCH) STRING
    | STRING -> metric_name

call: FUNCTION LPAR arguments RPAR
aggregate: AGGREGATION LPAR arguments RPAR grouping?
    | AGGREGATION grouping LPAR arguments RPAR
arguments: (alternative (COMMA alternative)*)?
grouping: BY labels
labels: LPAR ((NAME | STRING | NUMBER) (COMMA (NAME | STRING | NUMBER))* COMMA?)? RPAR

?duration: duration_product
    | duration SIGN duration_product -> duration_binary
?duration_product: duration_signed
    | duration_product SCALE duration_signed -> duration_binary
?duration_signed: duration_power
    | SIGN duration_signed -> duration_unary
?duration_power: duration_atom
    | duration_atom POWER duration_signed -> duration_binary
?duration_atom: _number -> number
    | FUNCTION LPAR (duration COMMA duration)? RPAR -> duration_call
    | LPAR duration RPAR -> duration_paren
?offset_value: duration_atom
    | SIGN duration_atom -> duration_unary

_number: NUMBER | DURATION

%declare OR AND COMPARE SIGN SCALE POWER BOOL ON GROUP FILL LPAR RPAR LSQB RSQB LBRACE RBRACE COLON COMMA OFFSET AT
%declare ANCHORED SMOOTHED NAME METRIC EQUAL MATCH STRING FUNCTION AGGREGATION BY NUMBER DURATION
"""


class _Tokens(Lexer):
    """Lark's interface of the tokenizer."""

    def __init__(self, _configuration: Any) -> None:
        pass

    def lex(self, data: Any) -> Iterator[Token]:  # type: ignore[override]  # the interface of custom lexers is the plain text
        for token in tokenize(str(data)):
            yield Token(token.kind, token.text, start_pos=token.start, end_pos=token.end)


@cache
def build_parser(transformer: Transformer[Token, Any]) -> Lark:
    """Return the parser, which is built once. It builds the syntax tree while it parses, without recursion."""
    return Lark(GRAMMAR, parser="lalr", lexer=_Tokens, transformer=transformer, maybe_placeholders=False)
