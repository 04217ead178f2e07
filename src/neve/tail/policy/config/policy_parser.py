"""Parser of policies: each with its section and the policies nested in it becomes a node of the tree.

Nesting follows the collector: `and` and `drop` may hold `not`, `composite` may hold `and`, and each of them, like
`not`, holds policies that hold no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from neve.tail.policy.config.problems import format_value, join_path, suggest_key
from neve.tail.policy.config.sections import LEAF_SECTIONS, PolicyFile, PolicyPlace, PolicySection
from neve.tail.policy.config.value_types import Count, Listed
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Composite, Drop, Node, Not, Share

if TYPE_CHECKING:
    from collections.abc import Iterable


class AndSection(PolicySection):
    """Traces that all parts sample."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return All(at.name, at.kind, at.parts)


class NotSection(PolicySection):
    """Traces that its part does not sample."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return Not(at.name, at.kind, at.parts[0])


class DropSection(PolicySection):
    """Traces that all parts sample are dropped."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return Drop(at.name, at.kind, at.parts)


class ShareSection(PolicySection):
    """The share of one part of a composite policy."""

    policy: str = ""
    percent: Count = 0


class CompositeSection(PolicySection):
    """Parts in order, each with its share of a limit in spans per second."""

    max_total_spans_per_second: Count = 0
    policy_order: Annotated[tuple[str, ...], Listed] = ()
    rate_allocation: Annotated[tuple[ShareSection, ...], Listed] = ()

    @property
    def oddity(self) -> str:
        """Remark on a limit that samples nothing."""
        return "" if self.max_total_spans_per_second else "max_total_spans_per_second is 0, so no trace is sampled"

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy, with parts by `policy_order`, or as written for `otelcol`.

        The collector's code ignores that key.
        """
        parts = list(at.parts)
        if at.file.semantics is not Semantics.OTELCOL:
            places = {name: place for place, name in reversed(list(enumerate(self.policy_order)))}
            parts.sort(key=lambda part: places.get(part.name, len(places)))
        shares = tuple(Share(part, self._spans_per_second(part.name, len(parts))) for part in parts)
        return Composite(at.name, at.kind, self.max_total_spans_per_second, shares)

    def _spans_per_second(self, part: str, parts: int) -> int:
        """Return the share of a part by its percentage, or an equal share, in the collector's arithmetic."""
        percent = {share.policy: share.percent for share in self.rate_allocation}.get(part, 0)
        total = float(self.max_total_spans_per_second)
        return int((percent / 100) * total) if percent > 0 else int(total / parts)


@dataclass(frozen=True)
class Nesting:
    """Key of nested policies in a policy type, and the types allowed there besides those without nested policies."""

    section: type[PolicySection]
    key: str
    within: tuple[str, ...] = ()
    single: bool = False
    named: bool = False  # by name, elsewhere in the section
    when_empty: str = "it samples every trace"


NESTINGS = {
    "and": Nesting(AndSection, "and_sub_policy", ("not",)),
    "not": Nesting(NotSection, "not_sub_policy", single=True),
    "drop": Nesting(DropSection, "drop_sub_policy", ("not",), when_empty="it drops every trace"),
    "composite": Nesting(
        CompositeSection, "composite_sub_policy", ("and",), named=True, when_empty="it samples no trace"
    ),
}
SECTIONS = (*LEAF_SECTIONS, *NESTINGS)
POLICY_KEYS = ("name", "type")


@dataclass(frozen=True)
class ParsedPolicy:
    """One policy of a file.

    `canonical` is its text as JSON, independent of the order of keys and with all defaults, for the fingerprint.
    """

    node: Node
    canonical: dict[str, Any]


class PolicyParser:
    """Parser of policies that collects problems and remarks."""

    def __init__(self, file: PolicyFile) -> None:
        self.file = file
        self.problems = file.problems
        self.remarks = file.remarks

    def read_all(self, policies: list[Any], path: str) -> tuple[ParsedPolicy, ...]:
        """Parse the top-level policies, whose names must be unique."""
        if not policies:
            self.remarks.append(f"{path} is empty, so no trace is sampled")
        self._check_names(policies, path)
        found = [self._read(each, join_path(path, at), tuple(NESTINGS)) for at, each in enumerate(policies)]
        return tuple(each for each in found if each is not None)

    def _read(self, policy: Any, path: str, within: tuple[str, ...]) -> ParsedPolicy | None:
        if not isinstance(policy, dict):
            self.problems.wrong(path, policy, "a policy: keys and values")
            return None
        before = len(self.problems.lines)
        name = policy.get("name", "")
        if not isinstance(name, str):
            self.problems.wrong(join_path(path, "name"), name, "text; put it in quotes")
        kind = self._type(policy, path, within)
        self._check_other_keys(policy, path, kind)
        if kind is None:
            return None
        section, parts = self._section(kind, policy.get(kind), join_path(path, kind))
        if section is None or len(self.problems.lines) > before:
            return None
        if section.oddity:
            self.remarks.append(f"{join_path(path, kind)}: {section.oddity}")
        nested = tuple(part.node for part in parts)
        node = section.build(PolicyPlace(self.file, join_path(path, kind), name or kind, kind, nested))
        below = [part.canonical for part in parts]
        return ParsedPolicy(
            node, {"name": name, "type": kind, "section": section.model_dump(mode="json"), "parts": below}
        )

    def _type(self, policy: dict[str, Any], path: str, within: tuple[str, ...]) -> str | None:
        place, kind = join_path(path, "type"), policy.get("type")
        if kind is None:
            self.problems.add(place, f"missing, expected one of {', '.join((*LEAF_SECTIONS, *within))}")
        elif not isinstance(kind, str) or kind not in SECTIONS:
            hint = suggest_key(kind, (*LEAF_SECTIONS, *within))
            self.problems.add(
                place, f"unknown type {format_value(kind)}{hint}; extensions of the collector are not supported"
            )
        elif kind in NESTINGS and kind not in within:
            allowed = f"; of the policies with sub-policies only {', '.join(within)} can" if within else ""
            self.problems.add(place, f"{kind!r} is not allowed here, as in the collector{allowed}")
        else:
            return kind
        return None

    def _check_other_keys(self, policy: dict[str, Any], path: str, kind: str | None) -> None:
        for key in policy:
            if key not in POLICY_KEYS and key not in SECTIONS:
                self.problems.unknown(path, key, (*POLICY_KEYS, kind) if kind else POLICY_KEYS)
            elif key in SECTIONS and key != kind and kind is not None:
                self.remarks.append(f"{join_path(path, key)} has no effect: the type of the policy is {kind}")

    def _section(self, kind: str, given: Any, path: str) -> tuple[PolicySection | None, tuple[ParsedPolicy, ...]]:
        given = {} if given is None else given
        if not isinstance(given, dict):
            self.problems.wrong(path, given, "keys and values")
            return None, ()
        given = {key: value for key, value in given.items() if value is not None}
        if kind in LEAF_SECTIONS:
            return self.problems.validate(LEAF_SECTIONS[kind], given, path), ()
        nesting = NESTINGS[kind]
        parts = self._parts(nesting, given.pop(nesting.key, None), join_path(path, nesting.key))
        if kind != "composite":
            return self.problems.validate(nesting.section, given, path, (nesting.key,)), parts
        return self._composite(given, parts, path, nesting.key), parts

    def _parts(self, nesting: Nesting, given: Any, path: str) -> tuple[ParsedPolicy, ...]:
        if nesting.single:
            part = self._read(given, path, nesting.within)
            return (part,) if part else ()
        given = [] if given is None else given
        if not isinstance(given, list):
            self.problems.wrong(path, given, "a list of policies")
            return ()
        if not given:
            self.remarks.append(f"{path} has no policies, so {nesting.when_empty}")
        if nesting.named:
            self._check_names(given, path)
        found = [self._read(each, join_path(path, at), nesting.within) for at, each in enumerate(given)]
        return tuple(each for each in found if each is not None)

    def _composite(
        self, given: dict[str, Any], parts: tuple[ParsedPolicy, ...], path: str, key: str
    ) -> PolicySection | None:
        shares = given.get("rate_allocation")
        if isinstance(shares, list):
            place = join_path(path, "rate_allocation")
            read = [
                self.problems.validate(ShareSection, share, join_path(place, at)) for at, share in enumerate(shares)
            ]
            given = given | {"rate_allocation": [share for share in read if share is not None]}
        section = self.problems.validate(CompositeSection, given, path, (*CompositeSection.model_fields, key))
        if section is not None:
            self._unknown_parts(section.policy_order, parts, join_path(path, "policy_order"))
            self._unknown_parts(
                [one.policy for one in section.rate_allocation], parts, join_path(path, "rate_allocation")
            )
        return section

    def _check_names(self, policies: list[Any], path: str) -> None:
        seen: dict[str, str] = {}
        for at, policy in enumerate(policies):
            name = policy.get("name", "") if isinstance(policy, dict) else None
            place = join_path(path, at)
            if name == "":
                self.problems.add(join_path(place, "name"), "missing or empty, expected a name")
            elif isinstance(name, str) and seen.setdefault(name, place) != place:
                self.problems.add(join_path(place, "name"), f"{name!r} is already the name of {seen[name]}")

    def _unknown_parts(self, names: Iterable[str], parts: tuple[ParsedPolicy, ...], path: str) -> None:
        known = {part.canonical["name"] for part in parts}
        self.remarks += [
            f"{path} names {name!r}, which is not one of its sub-policies" for name in names if name not in known
        ]
