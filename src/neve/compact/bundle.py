"""Groups that one Spark job rewrites: starting a job costs as much as a small group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact.plan import Executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.plan import Group

BUNDLE_BYTES = 128 * 1024 * 1024  # what a kill costs at most, besides the groups that are larger
BUNDLE_GROUPS = 64


def bundles(groups: Sequence[Group]) -> list[tuple[Group, ...]]:
    """Neighbours of the plan together, as long as they are small; what needs Spark's own engine stays alone."""
    found: list[list[Group]] = []
    for group in groups:
        if found and _fits(found[-1], group):
            found[-1].append(group)
        else:
            found.append([group])
    return [tuple(bundle) for bundle in found]


def _fits(bundle: list[Group], group: Group) -> bool:
    alike = group.executor is bundle[0].executor is Executor.ARROW
    return alike and len(bundle) < BUNDLE_GROUPS and sum(one.bytes for one in bundle) + group.bytes <= BUNDLE_BYTES
