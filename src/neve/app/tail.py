"""Tail sampling as the settings describe it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents, build_lake
from neve.lake.calendar import now_utc
from neve.model.tail import DECISIONS
from neve.tail.claims import NoClaims, RedisClaims
from neve.tail.export.build import build
from neve.tail.exporting import Exporter
from neve.tail.job import Selector
from neve.tail.kept import Kept
from neve.tail.policy.defaults import default_policies
from neve.tail.policy.read import read_policy_file
from neve.tail.status import tail_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.job import Progress
    from neve.tail.policy.tree import PolicySet
    from neve.tail.status import TailStatus


def build_policies(config: TailConfig, path: str | None = None) -> PolicySet:
    """The policies of a file, of the configured one, or those that hold without one."""
    file = path or config.policies
    if not file:
        return default_policies(config.slow_ms, config.percentage, config.semantics)
    return read_policy_file(file, config.semantics)


def build_selector(  # noqa: PLR0913 - what a run may have otherwise
    settings: Settings,
    lake: Lake,
    progress: Progress = lambda _step, _done, _total: None,
    *,
    policies: str | None = None,
    steal: bool = False,
    clock: Callable[[], datetime] = now_utc,
    documents: Documents | None = None,
) -> Selector:
    """The selector of a lake; `steal` takes the lease of another that is known to be dead."""
    config = settings.tail
    return Selector(
        lake=lake,
        spans=source_lake(settings, lake),
        config=config,
        policies=build_policies(config, policies),
        documents=documents or build_documents(settings),
        claims=build_claims(config),
        clock=clock,
        steal=steal,
        progress=progress,
    )


def source_lake(settings: Settings, lake: Lake) -> Lake:
    """The lake that spans are read from: the settings' own, or that of another catalog."""
    catalog = settings.tail.source.catalog
    return lake if catalog is None else replace(build_lake(settings), catalog_config=catalog)


def build_claims(config: TailConfig) -> Claims:
    """Who tells which selector keeps a trace."""
    if not config.claims:
        return NoClaims(config.name)
    return RedisClaims(config.claims, config.name, config.trace_ttl_seconds)


def build_status(settings: Settings, lake: Lake) -> TailStatus:
    """How far the selector is."""
    documents = build_documents(settings)
    try:
        return tail_status(lake, source_lake(settings, lake), settings.tail, documents)
    finally:
        documents.close()


def build_exporter(selector: Selector) -> Exporter:
    """Who brings kept traces to their destinations."""
    lake, config = selector.lake, selector.config
    destinations = [build(one, lake) for one in config.export.destinations]
    kept = Kept(lake, selector.source, config, lake.table(DECISIONS.name))
    return Exporter(kept, selector.documents, destinations, selector.steal)
