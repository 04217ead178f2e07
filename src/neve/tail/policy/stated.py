"""Policies as they were written: each with its section, checked, and with the policies that stand in it.

Which may stand in which is the collector's rule: `and` and `drop` may hold `not`, `composite` may hold `and`, and each
of them, like `not`, holds policies that hold no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from neve.tail.policy.complaints import Complaints, joined, nearest, shown
from neve.tail.policy.fields import Count, Listed, Shape
from neve.tail.policy.shape import LEAVES, Nothing, ShareShape

if TYPE_CHECKING:
    from collections.abc import Iterable


class CompositeShape(Shape):
    """Parts in order, each with a share of so many spans a second."""

    max_total_spans_per_second: Count = 0
    policy_order: Annotated[tuple[str, ...], Listed] = ()
    rate_allocation: Annotated[tuple[ShareShape, ...], Listed] = ()

    @property
    def oddity(self) -> str:
        """A limit that lets nothing through."""
        return "" if self.max_total_spans_per_second else "max_total_spans_per_second is 0, so no trace is sampled"


@dataclass(frozen=True)
class Nesting:
    """The key under which policies stand in one, and which types may stand there besides those that hold none."""

    key: str
    within: tuple[str, ...] = ()
    single: bool = False
    named: bool = False  # by what they are called, elsewhere in the section
    when_empty: str = "it samples every trace"


NESTINGS = {
    "and": Nesting("and_sub_policy", ("not",)),
    "not": Nesting("not_sub_policy", single=True),
    "drop": Nesting("drop_sub_policy", ("not",), when_empty="it drops every trace"),
    "composite": Nesting("composite_sub_policy", ("and",), named=True, when_empty="it samples no trace"),
}
SECTIONS = (*LEAVES, *NESTINGS)
OWN = ("name", "type")


@dataclass(frozen=True)
class Stated:
    """One policy as it was written."""

    path: str
    name: str
    type: str
    section: Shape
    parts: tuple[Stated, ...] = ()

    def canonical(self) -> dict[str, Any]:
        """The same for whatever order of keys, with every default filled in."""
        parts = [part.canonical() for part in self.parts]
        return {"name": self.name, "type": self.type, "section": self.section.model_dump(mode="json"), "parts": parts}


class Reader:
    """Reads policies one by one, and gathers complaints and remarks about them all."""

    def __init__(self, complaints: Complaints) -> None:
        self.complaints = complaints
        self.remarks: list[str] = []

    def read_all(self, policies: list[Any], path: str) -> tuple[Stated, ...]:
        """The policies at the top, which have names that tell them apart."""
        if not policies:
            self.remarks.append(f"{path} is empty, so no trace is sampled")
        self._check_names(policies, path)
        found = [self._read(each, joined(path, at), tuple(NESTINGS)) for at, each in enumerate(policies)]
        return tuple(each for each in found if each is not None)

    def _read(self, policy: Any, path: str, within: tuple[str, ...]) -> Stated | None:
        if not isinstance(policy, dict):
            self.complaints.wrong(path, policy, "a policy: keys and values")
            return None
        before = len(self.complaints.lines)
        name = policy.get("name", "")
        if not isinstance(name, str):
            self.complaints.wrong(joined(path, "name"), name, "text; put it in quotes")
        kind = self._type(policy, path, within)
        self._other_keys(policy, path, kind)
        if kind is None:
            return None
        section, parts = self._section(kind, policy.get(kind), joined(path, kind))
        if section is None or len(self.complaints.lines) > before:
            return None
        if section.oddity:
            self.remarks.append(f"{joined(path, kind)}: {section.oddity}")
        return Stated(path, name, kind, section, parts)

    def _type(self, policy: dict[str, Any], path: str, within: tuple[str, ...]) -> str | None:
        place, kind = joined(path, "type"), policy.get("type")
        if kind is None:
            self.complaints.add(place, f"missing, expected one of {', '.join((*LEAVES, *within))}")
        elif not isinstance(kind, str) or kind not in SECTIONS:
            hint = nearest(kind, (*LEAVES, *within))
            self.complaints.add(place, f"unknown type {shown(kind)}{hint}; the collector's extensions can't run here")
        elif kind in NESTINGS and kind not in within:
            allowed = f"; of those that hold others only {', '.join(within)} may" if within else ""
            self.complaints.add(place, f"{kind!r} can't stand here, as in the collector{allowed}")
        else:
            return kind
        return None

    def _other_keys(self, policy: dict[str, Any], path: str, kind: str | None) -> None:
        for key in policy:
            if key not in OWN and key not in SECTIONS:
                self.complaints.unknown(path, key, (*OWN, kind) if kind else OWN)
            elif key in SECTIONS and key != kind and kind is not None:
                self.remarks.append(f"{joined(path, key)} means nothing: the type of the policy is {kind}")

    def _section(self, kind: str, given: Any, path: str) -> tuple[Shape | None, tuple[Stated, ...]]:
        given = {} if given is None else given
        if not isinstance(given, dict):
            self.complaints.wrong(path, given, "keys and values")
            return None, ()
        given = {key: value for key, value in given.items() if value is not None}
        if kind in LEAVES:
            return self.complaints.checked(LEAVES[kind], given, path), ()
        nesting = NESTINGS[kind]
        parts = self._parts(nesting, given.pop(nesting.key, None), joined(path, nesting.key))
        if kind != "composite":
            return self.complaints.checked(Nothing, given, path, (nesting.key,)), parts
        return self._composite(given, parts, path, nesting.key), parts

    def _parts(self, nesting: Nesting, given: Any, path: str) -> tuple[Stated, ...]:
        if nesting.single:
            part = self._read(given, path, nesting.within)
            return (part,) if part else ()
        given = [] if given is None else given
        if not isinstance(given, list):
            self.complaints.wrong(path, given, "a list of policies")
            return ()
        if not given:
            self.remarks.append(f"{path} holds no policy, so {nesting.when_empty}")
        if nesting.named:
            self._check_names(given, path)
        found = [self._read(each, joined(path, at), nesting.within) for at, each in enumerate(given)]
        return tuple(each for each in found if each is not None)

    def _composite(self, given: dict[str, Any], parts: tuple[Stated, ...], path: str, key: str) -> Shape | None:
        shares = given.get("rate_allocation")
        if isinstance(shares, list):
            place = joined(path, "rate_allocation")
            read = [self.complaints.checked(ShareShape, share, joined(place, at)) for at, share in enumerate(shares)]
            given = given | {"rate_allocation": [share for share in read if share is not None]}
        section = self.complaints.checked(CompositeShape, given, path, (*CompositeShape.model_fields, key))
        if section is not None:
            self._unknown_parts(section.policy_order, parts, joined(path, "policy_order"))
            self._unknown_parts([one.policy for one in section.rate_allocation], parts, joined(path, "rate_allocation"))
        return section

    def _check_names(self, policies: list[Any], path: str) -> None:
        seen: dict[str, str] = {}
        for at, policy in enumerate(policies):
            name = policy.get("name", "") if isinstance(policy, dict) else None
            place = joined(path, at)
            if name == "":
                self.complaints.add(joined(place, "name"), "missing or empty, expected a name")
            elif isinstance(name, str) and seen.setdefault(name, place) != place:
                self.complaints.add(joined(place, "name"), f"{name!r} is the name of {seen[name]} already")

    def _unknown_parts(self, names: Iterable[str], parts: tuple[Stated, ...], path: str) -> None:
        known = {part.name for part in parts}
        self.remarks += [f"{path} names {name!r}, which no policy beside it has" for name in names if name not in known]
