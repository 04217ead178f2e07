"""Where the policies stand in a document: a whole collector's configuration, `tail_sampling:`, or its body alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.tail.policy.complaints import joined, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.complaints import Complaints

PROCESSOR = "tail_sampling"
PROCESSORS = "processors"
POLICIES = "policies"


def find_body(document: Mapping[str, Any], processor: str | None, complaints: Complaints) -> tuple[Any, str]:
    """The processor's own keys and values, and the path to them."""
    path = ""
    if isinstance(document.get(PROCESSORS), dict):
        document, path = document[PROCESSORS], PROCESSORS
    names = [name for name in document if name == PROCESSOR or str(name).startswith(f"{PROCESSOR}/")]
    if processor is not None:
        return _named(document, processor, names, path, complaints)
    if len(names) == 1:
        return document[names[0]] or {}, joined(path, names[0])
    if names:
        complaints.add(path, f"there are several tail samplers: {', '.join(names)}; expected the name of one of them")
    elif path:
        complaints.add(path, f"there is no {PROCESSOR} among the processors {', '.join(map(str, document))}")
    return ({}, path) if names or path else (document, "")


def _named(
    document: Mapping[str, Any], processor: str, names: list[str], path: str, complaints: Complaints
) -> tuple[Any, str]:
    if processor not in names:
        complaints.add(path, f"there is no {processor!r}; there are {', '.join(names) or 'no tail samplers'}")
        return {}, path
    return document[processor] or {}, joined(path, processor)


def is_body(body: Any, path: str, complaints: Complaints) -> bool:
    """Whether there is something to read; complains where not."""
    if complaints.lines:
        return False
    if not isinstance(body, dict):
        complaints.add(path, f"got {shown(body)}, expected keys and values")
    elif not isinstance(body.get(POLICIES), list):
        found = "missing" if POLICIES not in body else f"got {shown(body[POLICIES])}"
        complaints.add(joined(path, POLICIES), f"{found}, expected a list of policies")
    else:
        return True
    return False
