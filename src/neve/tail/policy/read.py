"""Policies from a collector's YAML, as it is."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from neve.tail.policy.build import Builder
from neve.tail.policy.complaints import Complaints, joined
from neve.tail.policy.document import POLICIES, find_body, is_body
from neve.tail.policy.expansion import expand
from neve.tail.policy.options import Options, read_options
from neve.tail.policy.stated import Reader, Stated
from neve.tail.policy.tree import All, Composite, Drop, Fact, Holds, Node, Not, PolicySet, Semantics
from neve.tail.policy.yaml_text import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def read_policy_file(
    path: str | Path, semantics: Semantics = Semantics.DOCUMENTED, *, processor: str | None = None
) -> PolicySet:
    """The policies of a file; raises `ConfigError` with all that is wrong with it."""
    return read_policies(read_document(Path(path)), semantics, str(path), processor=processor)


def read_policies(
    document: Mapping[str, object],
    semantics: Semantics = Semantics.DOCUMENTED,
    source: str = "",
    *,
    processor: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> PolicySet:
    """The policies of a document; `processor` tells which, where a configuration has several tail samplers.

    Raises `ConfigError` with all that is wrong.
    """
    complaints = Complaints(source)
    body, path = find_body(document, processor, complaints)
    body = expand(body, environment, path, complaints)
    if not is_body(body, path, complaints):
        complaints.raise_if_any()
    options = read_options(body, path, complaints)
    reader = Reader(complaints)
    stated = reader.read_all(body[POLICIES], joined(path, POLICIES))
    builder = Builder(semantics, complaints)
    nodes = [builder.build(policy) for policy in stated]
    complaints.raise_if_any()
    ordered = tuple(sorted(nodes, key=lambda node: not isinstance(node, Drop)))
    return PolicySet(
        ordered,
        semantics,
        options.sample_on_first_match,
        tuple(builder.keys),
        fingerprint(stated, options, semantics),
        (*options.remarks, *reader.remarks, *builder.remarks),
        tuple(dict.fromkeys(found for node in ordered for found in facts_of(node))),
        options.decision_wait,
        options.decision_wait_after_root_received or None,
    )


def fingerprint(stated: tuple[Stated, ...], options: Options, semantics: Semantics) -> str:
    """SHA-256 over what decides: not over comments, the order of keys, or when a trace is complete."""
    told = {
        "policies": [policy.canonical() for policy in stated],
        "sample_on_first_match": options.sample_on_first_match,
        "semantics": semantics.value,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def facts_of(node: Node) -> Iterator[Fact]:
    """Every fact that a policy asks for, in order."""
    match node:
        case Holds():
            yield node.fact
        case Not():
            yield from facts_of(node.part)
        case All() | Drop():
            for part in node.parts:
                yield from facts_of(part)
        case Composite():
            for share in node.shares:
                yield from facts_of(share.part)
