"""Rule files in Prometheus' format: groups of recording and alerting rules, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression, InvalidRules
from neve.lexical.go_template.parser import TemplateError
from neve.promql.labels import Labels, is_valid_name
from neve.promql.language.checks import value_type
from neve.promql.language.parser import parse
from neve.promql.language.syntax import METRIC_NAME, ValueType
from neve.rules.alert_template import check_template
from neve.rules.yaml_nodes import NodeReader, Problem, Where, parse_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import yaml

__all__ = ["Group", "Rule", "RuleFile", "load_rules", "parse_rules", "read_rules"]

_GROUP_KEYS = ("name", "interval", "query_offset", "limit", "labels", "rules")
_RULE_KEYS = ("record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations")


@dataclass(frozen=True, slots=True)
class Rule:
    """Recording or alerting rule. Durations are in milliseconds, `labels` have those of the group."""

    name: str
    is_alert: bool
    expression: str
    hold_ms: int = 0
    keep_firing_ms: int = 0
    labels: Labels = ()
    annotations: Labels = ()
    line: int = 0

    @property
    def kind(self) -> str:
        """Return the kind in Prometheus' words."""
        return "alerting" if self.is_alert else "recording"


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, at the same time. `interval_ms` is 0 for the default."""

    name: str
    rules: tuple[Rule, ...]
    interval_ms: int = 0
    query_offset_ms: int = 0
    limit: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """Groups of one file, and the problems that were found. A file with errors has no groups."""

    path: str
    groups: tuple[Group, ...]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that are no warnings."""
        return tuple(one for one in self.problems if not one.is_warning)


def read_rules(path: Path) -> RuleFile:
    """Return the rules of a file. A file that can't be read is a problem."""
    try:
        return parse_rules(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        message = f"can't read the file: {error.strerror or error}"
    except UnicodeDecodeError:
        message = "can't read the file: expected UTF-8"
    return RuleFile(str(path), (), (Problem(str(path), 1, 1, message),))


def load_rules(paths: Iterable[Path]) -> tuple[Group, ...]:
    """Return the groups of some files. Raises `InvalidRules` with all errors."""
    files = [read_rules(path) for path in paths]
    errors = [str(problem) for file in files for problem in file.errors]
    if errors:
        raise InvalidRules("\n".join(errors), hint="check rule files with `neve rules check FILES`")
    return tuple(group for file in files for group in file.groups)


def parse_rules(text: str, path: str) -> RuleFile:
    """Return the rules of a text."""
    root, problems = parse_document(text, path)
    reader = NodeReader(path, problems)
    groups: list[Group] = []
    names: set[str] = set()
    for node in reader.sequence(reader.mapping(root, ("groups",)).get("groups")):
        group = _read_group(node, reader)
        if group.name in names:
            reader.add(node, f'group name "{group.name}" is repeated')
        names.add(group.name)
        groups.append(group)
    _find_duplicates(groups, reader)
    found = RuleFile(path, tuple(groups), tuple(problems))
    return RuleFile(path, (), found.problems) if found.errors else found


def _read_group(node: yaml.Node, reader: NodeReader) -> Group:
    keys = reader.mapping(node, _GROUP_KEYS)
    name = reader.text(keys.get("name"))
    if not name:
        reader.add(node, "a group needs a name")
    inside = reader.at(Where(name))
    labels = inside.texts(keys.get("labels"))
    _check_labels(labels, keys.get("labels"), inside)
    rules = [
        _read_rule(one, reader, name, index, labels)
        for index, one in enumerate(inside.sequence(keys.get("rules")), start=1)
    ]
    limit = inside.integer(keys.get("limit"))
    interval = inside.duration(keys.get("interval")) or 0
    offset = inside.duration(keys.get("query_offset")) or 0
    return Group(name, tuple(rules), interval, offset, max(limit, 0), reader.path)


def _read_rule(node: yaml.Node, reader: NodeReader, group: str, index: int, shared: dict[str, str]) -> Rule:
    keys = reader.mapping(node, _RULE_KEYS)
    record, alert = reader.text(keys.get("record")), reader.text(keys.get("alert"))
    inside = reader.at(Where(group, index, alert or record))
    if record and alert:
        inside.add(keys["alert"], "a rule has either record or alert, this one has both")
    if not record and not alert:
        inside.add(node, "a rule needs record or alert")
    labels, annotations = inside.texts(keys.get("labels")), inside.texts(keys.get("annotations"))
    _check_labels(labels, keys.get("labels"), inside)
    _check_expression(keys.get("expr") or node, inside.text(keys.get("expr")), inside)
    hold, keep = inside.duration(keys.get("for")) or 0, inside.duration(keys.get("keep_firing_for")) or 0
    if alert:
        _check_annotations(annotations, keys.get("annotations"), inside)
        _check_templates(labels, "label", keys.get("labels"), inside)
        _check_templates(annotations, "annotation", keys.get("annotations"), inside)
    elif record:
        given = {"annotations": annotations, "for": hold, "keep_firing_for": keep}
        _check_record(record, keys, [key for key, value in given.items() if value], inside)
    return Rule(
        alert or record,
        bool(alert),
        inside.text(keys.get("expr")),
        hold,
        keep,
        tuple(sorted({**shared, **labels}.items())),  # an empty value removes a label of the result
        tuple(sorted(annotations.items())),
        node.start_mark.line + 1,
    )


def _check_expression(node: yaml.Node, text: str, reader: NodeReader) -> None:
    if not text.strip():
        reader.add(node, "a rule needs expr")
        return
    try:
        found = value_type(parse(text))
    except InvalidExpression as error:
        reader.add(node, f"could not parse expression: {error.message}")
        return
    if found not in {ValueType.SCALAR, ValueType.VECTOR}:
        reader.add(node, f"expr is a {found.value}, expected an instant vector or a scalar")


def _check_record(record: str, keys: dict[str, yaml.Node], misplaced: list[str], reader: NodeReader) -> None:
    for key in misplaced:
        reader.add(keys[key], f"{key} is for alerting rules, this is a recording rule")
    if not is_valid_name(record):
        reader.add(keys["record"], f"invalid name of a recording rule: {record!r}")
    elif "{" in record or "}" in record:
        reader.add(keys["record"], f'braces in the name of a recording rule "{record}": should it be in expr?')


def _check_labels(labels: dict[str, str], node: yaml.Node | None, reader: NodeReader) -> None:
    for name, value in labels.items():
        if not is_valid_name(name) or name == METRIC_NAME:
            reader.add(node, f'invalid label name "{name}"')
        if value and not is_valid_name(value):
            reader.add(node, f'invalid value of label "{name}"')


def _check_annotations(annotations: dict[str, str], node: yaml.Node | None, reader: NodeReader) -> None:
    for name in annotations:
        if not is_valid_name(name):
            reader.add(node, f'invalid annotation name "{name}"')


def _check_templates(texts: dict[str, str], word: str, node: yaml.Node | None, reader: NodeReader) -> None:
    values = reader.mapping(node) if node is not None else {}
    for name, text in texts.items():
        try:
            check_template(text)
        except TemplateError as error:
            reader.add(values.get(name, node), f'{word} "{name}": template: {error}')


def _find_duplicates(groups: list[Group], reader: NodeReader) -> None:
    """Warn about rules with the same name and labels: their results overwrite each other."""
    seen: dict[tuple[str, Labels], tuple[str, int]] = {}
    for group in groups:
        for index, rule in enumerate(group.rules, start=1):
            key = (rule.name, rule.labels)
            if key in seen and rule.name:
                first = f'group "{seen[key][0]}", rule {seen[key][1]}'
                problem = f"the same name and labels as in {first}"
                where = Where(group.name, index, rule.name)
                reader.problems.append(Problem(reader.path, rule.line, 1, problem, where, is_warning=True))
            seen.setdefault(key, (group.name, index))
