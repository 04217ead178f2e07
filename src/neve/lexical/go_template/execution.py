"""Execute a template: print its text and the values of its actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from neve.lexical.go_template.builtin_functions import BUILTIN_FUNCTIONS, LAZY_FUNCTIONS, is_true
from neve.lexical.go_template.parser import TemplateError, parse_template
from neve.lexical.go_template.printf import Record, format_value, type_name
from neve.lexical.go_template.syntax import (
    Action,
    Branch,
    Call,
    Chain,
    Command,
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
from neve.lexical.positions import format_position

__all__ = ["Template"]

MAX_CHARS = 1 << 20  # of one result
Functions = Mapping[str, Callable[..., Any]]
_MISSING = object()


class _Break(Exception):  # control flow, not an error
    pass


class _Continue(Exception):  # control flow, not an error
    pass


@dataclass(frozen=True)
class Template:
    """Template with the names of the functions and variables that it may use."""

    text: str
    nodes: tuple[Node, ...]

    @staticmethod
    def parse(text: str, functions: Functions, variables: tuple[str, ...] = ()) -> Template:
        """Return a template, or raise `TemplateError`."""
        return Template(text, parse_template(text, {*BUILTIN_FUNCTIONS, *functions}, variables))

    def execute(self, data: Any, functions: Functions, variables: Mapping[str, Any]) -> str:
        """Return the text for some data, or raise `TemplateError`."""
        run = _Run(self.text, {**BUILTIN_FUNCTIONS, **functions}, [("$", data), *variables.items()])
        run.write_all(self.nodes, data)
        return "".join(run.out)


@dataclass(slots=True)
class _Run:
    text: str
    functions: Functions
    variables: list[tuple[str, Any]]
    out: list[str] = field(default_factory=list)
    size: int = 0

    def write_all(self, nodes: tuple[Node, ...], dot: Any) -> None:
        for node in nodes:
            self._write(node, dot)

    def _write(self, node: Node, dot: Any) -> None:
        if isinstance(node, Text):
            self._print(node.value)
        elif isinstance(node, Action):
            value = self.evaluate(node.pipeline, dot)
            if node.pipeline.declaration is None:
                self._print("<no value>" if value is None else format_value(value))
        elif isinstance(node, Escape):
            raise _Break if node.is_break else _Continue
        else:
            known = len(self.variables)
            try:
                self._write_control(node, dot)
            finally:
                del self.variables[known:]

    def _print(self, text: str) -> None:
        self.size += len(text)
        if self.size > MAX_CHARS:
            raise TemplateError(f"the result has more than {MAX_CHARS:,} characters")
        self.out.append(text)

    def _write_control(self, node: Branch | Scope | Loop, dot: Any) -> None:
        if isinstance(node, Loop):
            self._write_loop(node, dot)
            return
        value = self.evaluate(node.condition if isinstance(node, Branch) else node.value, dot)
        if not is_true(value):
            self.write_all(node.otherwise, dot)
        else:
            self.write_all(node.then, value if isinstance(node, Scope) else dot)

    def _write_loop(self, node: Loop, dot: Any) -> None:
        declaration = node.value.declaration
        value = self.evaluate(Pipeline(node.value.commands), dot)
        is_empty = True
        known = len(self.variables)
        for key, element in self._elements(value, node.value.commands[0]):
            is_empty = False
            names = declaration.names if declaration else ()
            self.variables += zip(names, (key, element) if len(names) == 2 else (element,), strict=False)
            try:
                self.write_all(node.body, element)
            except _Break:
                break
            except _Continue:
                continue
            finally:
                del self.variables[known:]
        if is_empty:
            self.write_all(node.otherwise, dot)

    def _elements(self, value: Any, command: Command) -> Iterator[tuple[Any, Any]]:
        if isinstance(value, Mapping):
            yield from ((key, value[key]) for key in sorted(value))
        elif isinstance(value, list):
            yield from enumerate(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield from ((one, one) for one in range(value))
        elif value is not None:
            raise self._error(f"range can't iterate over {format_value(value)}", command)

    def evaluate(self, pipeline: Pipeline, dot: Any) -> Any:
        value: Any = _MISSING
        for command in pipeline.commands:
            value = self._run_command(command, dot, value)
        declaration = pipeline.declaration
        if declaration is not None:
            self._set_variable(declaration.names[0], value, is_new=declaration.is_new)
        return value

    def _set_variable(self, name: str, value: Any, *, is_new: bool) -> None:
        if not is_new:
            for place in range(len(self.variables) - 1, -1, -1):
                if self.variables[place][0] == name:
                    self.variables[place] = (name, value)
                    return
        self.variables.append((name, value))

    def _run_command(self, command: Command, dot: Any, last: Any) -> Any:
        first, *others = command.operands
        if isinstance(first, Call):
            return self._call(first.name, others, command, dot, last)
        if others or last is not _MISSING:
            raise self._error("can't give an argument to a value that is not a function", command)
        if isinstance(first, Literal) and first.value is None:
            raise self._error("nil is not a command", command)
        return self._value(first, command, dot)

    def _call(self, name: str, operands: list[Operand], command: Command, dot: Any, last: Any) -> Any:
        if name in LAZY_FUNCTIONS:
            return self._call_lazily(name, operands, command, dot, last)
        values = [self._value(one, command, dot) for one in operands]
        values += [] if last is _MISSING else [last]
        try:
            return self.functions[name](*values)
        except TemplateError:
            raise
        except TypeError as error:  # a wrong number or kind of arguments
            kinds = ", ".join(type_name(value) for value in values) or "no arguments"
            raise self._error(f"error calling {name} with {kinds}: {_explain(error)}", command) from None
        except (ValueError, ArithmeticError, AttributeError) as error:
            raise self._error(f"error calling {name}: {error}", command) from None

    def _call_lazily(self, name: str, operands: list[Operand], command: Command, dot: Any, last: Any) -> Any:
        value: Any = _MISSING
        for operand in operands:
            value = self._value(operand, command, dot)
            if is_true(value) == (name == "or"):
                return value
        value = value if last is _MISSING else last
        if value is _MISSING:
            raise self._error(f"{name} needs at least one argument", command)
        return value

    def _value(self, operand: Operand, command: Command, dot: Any) -> Any:
        if isinstance(operand, Literal):
            return operand.value
        if isinstance(operand, Dot):
            return dot
        if isinstance(operand, Variable):
            return next(value for name, value in reversed(self.variables) if name == operand.name)
        if isinstance(operand, Chain):
            value = self._value(operand.base, command, dot)
            for name in operand.fields:
                value = self._field(value, name, command)
            return value
        if isinstance(operand, Call):
            return self._call(operand.name, [], command, dot, _MISSING)
        return self.evaluate(operand, dot)

    def _field(self, value: Any, name: str, command: Command) -> Any:
        if isinstance(value, Mapping):
            return value.get(name, "")  # as with the option missingkey=zero
        if isinstance(value, Record) and name in value.fields:
            return value.fields[name]
        raise self._error(f"can't evaluate field {name} in type {type_name(value)}", command)

    def _error(self, message: str, command: Command) -> TemplateError:
        return TemplateError(f"{format_position(self.text, command.position)}: {message}")


def _explain(error: TypeError) -> str:
    text = str(error)
    return "wrong number of arguments" if "argument" in text else "wrong type of an argument"
