"""Parse a template of Go: text with actions in `{{ }}`.

Templates that define or call other templates are rejected. Unknown functions and variables are errors here, not when
the template runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.lexical.go_template.syntax import (
    Action,
    Branch,
    Call,
    Chain,
    Command,
    Declaration,
    Dot,
    Escape,
    Literal,
    Loop,
    Node,
    Operand,
    Pipeline,
    Scope,
    Text,
    Variable,
)
from neve.lexical.literals import LiteralError, scan_string, unquote
from neve.lexical.positions import format_position

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["TemplateError", "parse_template"]

MAX_DEPTH = 50
_ACTION = re.compile(r"\{\{(?P<left>-(?=[ \t\r\n]))?")
_COMMENT = re.compile(r"[ \t\r\n]*/\*.*?\*/(?P<right>[ \t\r\n]+-)?\}\}", re.DOTALL)
_END = re.compile(r"(?P<right>[ \t\r\n]+-)?\}\}")
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)|(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    r"|[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))"
    r"|(?P<variable>\$\w*)|(?P<field>\.[^\W\d]\w*)|(?P<word>[^\W\d]\w*)|(?P<mark>:=|[=|(),.])"
)
_DEFINITIONS = frozenset({"define", "template", "block"})
_KEYWORDS = _DEFINITIONS | {"if", "range", "with", "else", "end", "break", "continue"}
_CONSTANTS = {"true": True, "false": False, "nil": None}


class TemplateError(ValueError):
    """Raised when a template can't be parsed or executed. The message begins with line and column."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # text, open, close, space, number, string, char, variable, field, word, mark, end
    text: str
    position: int


def parse_template(text: str, functions: Collection[str], variables: Collection[str] = ()) -> tuple[Node, ...]:
    """Return the nodes of a template, or raise `TemplateError`.

    `variables` are set before the template runs, for example `$labels`.
    """
    parser = _Parser(text, _tokenize(text), frozenset(functions), ["$", *variables])
    nodes, keyword = parser.read_list(in_loop=False, depth=0)
    if keyword is not None:
        raise parser.error(f"unexpected {{{{{keyword.text}}}}}", keyword)
    return nodes


def _fail(text: str, position: int, message: str) -> TemplateError:
    return TemplateError(f"{format_position(text, position)}: {message}")


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, trims = 0, False
    while at <= len(text):
        found = _ACTION.search(text, at)
        plain = text[at : found.start() if found else len(text)]
        plain = plain.lstrip(" \t\r\n") if trims else plain
        if found and found["left"]:
            plain = plain.rstrip(" \t\r\n")
        if plain:
            tokens.append(_Token("text", plain, at))
        if not found:
            break
        comment = _COMMENT.match(text, found.end())
        if comment:
            at, trims = comment.end(), bool(comment["right"])
        else:
            at, trims = _tokenize_action(text, found.start(), found.end(), tokens)
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _tokenize_action(text: str, start: int, at: int, tokens: list[_Token]) -> tuple[int, bool]:
    """Append the tokens of one action, and return its end and whether it trims the text that follows."""
    tokens.append(_Token("open", "{{", start))
    while at < len(text):
        closed = _END.match(text, at)
        if closed:
            tokens.append(_Token("close", "}}", at))
            return closed.end(), bool(closed["right"])
        token = _read_token(text, at)
        tokens.append(token)
        at += len(token.text)
    raise _fail(text, start, "unclosed action")


def _read_token(text: str, at: int) -> _Token:
    if text[at] in "\"`'":
        try:
            end = scan_string(text, at)
        except LiteralError as error:
            raise _fail(text, at, str(error)) from None
        return _Token("char" if text[at] == "'" else "string", text[at:end], at)
    found = _TOKEN.match(text, at)
    if not found:
        raise _fail(text, at, f"unexpected character {text[at]!r} in an action")
    return _Token(found.lastgroup or "", found[0], at)


@dataclass(slots=True)
class _Parser:
    text: str
    tokens: list[_Token]
    functions: frozenset[str]
    variables: list[str]
    at: int = field(default=0)

    def error(self, message: str, token: _Token) -> TemplateError:
        return _fail(self.text, token.position, message)

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def skip_space(self) -> _Token:
        """Return the next token that is no space, without reading it."""
        while self.peek().kind == "space":
            self.at += 1
        return self.peek()

    def close(self) -> None:
        token = self.skip_space()
        if token.kind != "close":
            raise self.error(f"unexpected {token.text or 'end of the template'!r} in an action", token)
        self.at += 1

    def read_list(self, *, in_loop: bool, depth: int) -> tuple[tuple[Node, ...], _Token | None]:
        """Return nodes up to `end`, `else` or the end of the template, and the keyword that ended them."""
        if depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} nested actions", self.peek())
        nodes: list[Node] = []
        while True:
            token = self.take()
            if token.kind == "end":
                return tuple(nodes), None
            if token.kind == "text":
                nodes.append(Text(token.text))
                continue
            word = self.skip_space()
            if word.kind == "word" and word.text in {"end", "else"}:
                self.at += 1
                return tuple(nodes), word
            nodes.append(self._read_action(word, in_loop=in_loop, depth=depth))

    def _read_action(self, word: _Token, *, in_loop: bool, depth: int) -> Node:
        if word.kind != "word" or word.text not in _KEYWORDS:
            pipeline = self._read_pipeline("command", depth)
            self.close()
            return Action(pipeline)
        if word.text in _DEFINITIONS:
            raise self.error(f"{{{{{word.text}}}}} is not supported", word)
        self.at += 1
        if word.text in {"break", "continue"}:
            if not in_loop:
                raise self.error(f"{{{{{word.text}}}}} outside {{{{range}}}}", word)
            self.close()
            return Escape(word.text == "break")
        return self._read_control(word, in_loop=in_loop, depth=depth)

    def _read_control(self, word: _Token, *, in_loop: bool, depth: int) -> Node:
        """Return an `if`, `with` or `range` with its branches. Its variables end with it."""
        known = len(self.variables)
        pipeline = self._read_pipeline(word.text, depth)
        self.close()
        then, keyword = self.read_list(in_loop=in_loop or word.text == "range", depth=depth + 1)
        otherwise: tuple[Node, ...] = ()
        if keyword is not None and keyword.text == "else":
            otherwise, keyword = self._read_else(word, in_loop=in_loop, depth=depth + 1)
        elif keyword is not None:
            self.close()
        if keyword is None:
            raise self.error(f"{{{{{word.text}}}}} has no {{{{end}}}}", word)
        del self.variables[known:]
        if word.text == "range":
            return Loop(pipeline, then, otherwise)
        return Branch(pipeline, then, otherwise) if word.text == "if" else Scope(pipeline, then, otherwise)

    def _read_else(self, word: _Token, *, in_loop: bool, depth: int) -> tuple[tuple[Node, ...], _Token | None]:
        """Return the nodes after `else`. `else if` and `else with` share the `end` of their parent."""
        following = self.skip_space()
        if following.kind == "word" and following.text == word.text and word.text in {"if", "with"}:
            self.at += 1
            return (self._read_control(following, in_loop=in_loop, depth=depth),), following
        self.close()
        nodes, keyword = self.read_list(in_loop=in_loop, depth=depth)
        if keyword is not None and keyword.text == "else":
            raise self.error("expected {{end}}, found {{else}}", keyword)
        if keyword is not None:
            self.close()
        return nodes, keyword

    def _read_pipeline(self, context: str, depth: int) -> Pipeline:
        if depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} nested actions", self.peek())
        declaration = self._read_declaration(context)
        commands = []
        while True:
            commands.append(self._read_command(context, depth))
            if self.skip_space().text != "|" or self.peek().kind != "mark":
                break
            self.at += 1
        for command in commands[1:]:
            if not isinstance(command.operands[0], Call | Chain | Variable | Dot | Pipeline):
                raise _fail(self.text, command.position, "a constant can't follow | in a pipeline")
        if declaration is not None and declaration.is_new:
            self.variables += declaration.names
        return Pipeline(tuple(commands), declaration)

    def _read_declaration(self, context: str) -> Declaration | None:
        """Return the variables before `:=` or `=`, if there are any."""
        start = self.at
        names = []
        while self.skip_space().kind == "variable":
            names.append(self.take())
            mark = self.skip_space()
            if mark.kind != "mark" or mark.text not in {":=", "=", ","}:
                break
            self.at += 1
            if mark.text == ",":
                continue
            most = 2 if context == "range" else 1
            if len(names) > most:
                raise self.error(f"too many variables in {context}", names[0])
            for name in names if mark.text == "=" else ():
                self._check_variable(name)
            return Declaration(tuple(name.text for name in names), mark.text == ":=")
        self.at = start
        return None

    def _read_command(self, context: str, depth: int) -> Command:
        operands: list[Operand] = []
        first = self.skip_space()
        while True:
            token = self.skip_space()
            if token.kind in {"close", "end"} or (token.kind == "mark" and token.text in {"|", ")"}):
                break
            operands.append(self._read_operand(depth))
            after = self.peek()
            if after.kind not in {"space", "close"} and not (after.kind == "mark" and after.text in {"|", ")"}):
                raise self.error(f"unexpected {after.text!r} after an operand", after)
        if not operands:
            raise self.error(f"missing value for {context}", first)
        return Command(tuple(operands), first.position)

    def _read_operand(self, depth: int) -> Operand:
        token = self.take()
        base = self._read_term(token, depth)
        fields = [token.text[1:]] if token.kind == "field" else []
        while self.peek().kind == "field":
            fields.append(self.take().text[1:])
        if not fields:
            return base
        if isinstance(base, Call | Literal):
            raise self.error(f"unexpected .{fields[0]} after {token.text}", token)
        return Chain(base, tuple(fields))

    def _read_term(self, token: _Token, depth: int) -> Operand:
        if token.kind in {"string", "char", "number"}:
            return Literal(self._read_literal(token))
        if token.kind == "field" or token.text == ".":
            return Dot()
        if token.kind == "variable":
            self._check_variable(token)
            return Variable(token.text)
        if token.kind == "word":
            return self._read_word(token)
        if token.text == "(":
            pipeline = self._read_pipeline("parenthesized pipeline", depth + 1)
            if self.skip_space().text != ")":
                raise self.error("unclosed left parenthesis", token)
            self.at += 1
            return pipeline
        raise self.error(f"unexpected {token.text!r} in an action", token)

    def _read_word(self, token: _Token) -> Operand:
        if token.text in _CONSTANTS:
            return Literal(_CONSTANTS[token.text])
        if token.text not in self.functions:
            raise self.error(f'function "{token.text}" not defined', token)
        return Call(token.text)

    def _check_variable(self, token: _Token) -> None:
        if token.text not in self.variables:
            raise self.error(f'undefined variable "{token.text}"', token)

    def _read_literal(self, token: _Token) -> Any:
        try:
            if token.kind == "string":
                return unquote(token.text)
            if token.kind == "char":
                found = unquote(token.text)
                if len(found) != 1:
                    raise LiteralError("malformed character constant")
                return ord(found)
            return _read_number(token.text)
        except ValueError as error:
            raise self.error(f"{error}: {token.text}", token) from None


def _read_number(text: str) -> int | float:
    """Return a number of Go: an integer unless it has a point or an exponent.

    >>> _read_number("0x10"), _read_number("1e3"), _read_number("-2")
    (16, 1000.0, -2)
    """
    digits = text.replace("_", "")
    plain = digits.lstrip("+-")
    if plain[:2].lower() in {"0x", "0b", "0o"}:
        return int(digits, 0)
    if not plain.isdigit():
        return float(digits)
    return int(digits, 8) if len(plain) > 1 and plain[0] == "0" else int(digits)
