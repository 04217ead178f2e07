"""The grammar of conditions.

Wider than OTTL's at one point, so that one token of lookahead is enough: what stands in parentheses may be a condition
or a value, and whether it is what its place needs is asked when it is translated.
"""

from __future__ import annotations

from functools import cache

from lark import Lark

GRAMMAR = r"""
start: disjunction

?disjunction: conjunction (OR conjunction)*
?conjunction: negation (AND negation)*
?negation: NOT comparison -> opposite
    | comparison
?comparison: sum (COMPARISON sum)?
?sum: product
    | sum SIGN product -> math
?product: signed
    | product SCALE signed -> math
?signed: SIGN atom -> sign
    | atom
?atom: NIL -> a_nil
    | BYTES -> a_bytes
    | FLOAT -> a_float
    | INT -> an_int
    | STRING -> a_string
    | BOOLEAN -> a_boolean
    | ENUM -> an_enum
    | path
    | call
    | "(" disjunction ")" -> group
    | "[" (sum ("," sum)*)? "]" -> a_list
    | "{" (STRING ":" sum ","?)* "}" -> a_map

path: field ("." field)*
field: NAME key*
key: "[" sum "]"
call: FUNCTION "(" (argument ("," argument)*)? ")" key*
argument: NAME "=" sum -> named
    | sum -> placed

BYTES.9: /0x[a-fA-F0-9]+/
FLOAT.8: /([0-9]+\.[0-9]*|[0-9]*\.[0-9]+)([eE][-+]?[0-9]+)?/
INT.7: /[0-9]+/
STRING.7: /"(\\.|[^\\"])*"/s
NIL.6: /\bnil\b/
NOT.6: /\bnot\b/
OR.6: /\bor\b/
AND.6: /\band\b/
BOOLEAN.6: /\b(true|false)\b/
COMPARISON.5: /==|!=|>=|<=|>|</
SIGN: /[+-]/
SCALE: /[*\/]/
FUNCTION.4: /[A-Z][A-Za-z0-9_]*(?=\s*\()/
ENUM.3: /[A-Z][A-Z0-9_]*/
NAME.2: /[a-z][a-z0-9_]*/
%ignore /\s+/
"""


@cache
def parser() -> Lark:
    """The parser, made once."""
    return Lark(GRAMMAR, parser="lalr", lexer="basic")
