"""Open a lake from Python: the public classes, built from the configuration as the commands build them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from neve.app.settings import load_settings
from neve.app.wiring import build_compactor, build_lake
from neve.lake.tables import init_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.autopilot.rewrite_planner import RewritePlanner
    from neve.compact.compactor import Compactor
    from neve.lake.lake import Lake
    from neve.lake.tables import Outcome
    from neve.query.service import QueryService
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.tables.job import Sampler
    from neve.rollup.job import Rollup
    from neve.tail.selector import TailSelector

# Each method imports what it builds, so that a program loads only the packages that it uses.


@dataclass(frozen=True)
class OpenLake:
    """A lake and its settings, and the objects that work on it.

    Objects that a method returned are closed when the lake is closed.
    """

    settings: Settings
    lake: Lake
    _cleanup: ExitStack = field(default_factory=ExitStack, repr=False)

    def init_tables(self) -> tuple[Outcome, ...]:
        """Create missing tables and add missing columns, as `neve init` does."""
        return init_tables(self.lake)

    def compactor(self, strategy: str | None = None, target_file_size: int | str | None = None) -> Compactor:
        """Build the compactor, with the configured budgets and prices."""
        compactor = build_compactor(self.settings, self.lake)
        self._cleanup.callback(compactor.documents.close)
        return replace(compactor, strategy=strategy, target_file_size=target_file_size)

    def rollup(self) -> Rollup:
        """Build the rollup job; windows that retention may have deleted rows of are not computed again."""
        from neve.app.rollup import build_rollup  # noqa: PLC0415

        rollup = build_rollup(self.settings, self.lake)
        self._cleanup.callback(rollup.documents.close)
        return rollup

    def tail_selector(self, policies: str | None = None) -> TailSelector:
        """Build the tail sampler, with the policies of a file, or the configured ones."""
        from neve.app.tail import build_selector  # noqa: PLC0415

        selector = build_selector(self.settings, self.lake, policies=policies)
        self._cleanup.callback(selector.documents.close)
        return selector

    def sampler(self, table: str, config: LakeSampling | None = None) -> Sampler:
        """Build the sampler of `logs` or `spans`; without `config`, with the section `reservoir.lake`."""
        from neve.app.reservoir import build_lake_sampler  # noqa: PLC0415

        sampler = build_lake_sampler(self.settings, self.lake, table, config or self.settings.reservoir.lake)
        self._cleanup.callback(sampler.documents.close)
        return sampler

    def query_service(self) -> QueryService:
        """Build the query service, with DuckDB in this process and the configured limits."""
        from neve.app.query.service import build_query_service  # noqa: PLC0415

        service = build_query_service(self.settings, self.lake)
        self._cleanup.callback(service.close)
        return service

    def rewrite_planner(self) -> RewritePlanner:
        """Build the planner that tries a table layout on a branch."""
        from neve.app.autopilot import open_pilot  # noqa: PLC0415
        from neve.autopilot.rewrite_planner import RewritePlanner  # noqa: PLC0415

        pilot = self._cleanup.enter_context(open_pilot(self.settings, self.lake))
        return RewritePlanner(rollout=pilot.rollout)


@contextmanager
def open_lake(config: str | Path | None = None) -> Iterator[OpenLake]:
    """Open the lake that a configuration file and the `NEVE_…` variables describe.

    Without `config`, the file is `NEVE_CONFIG`, or `neve.yaml` in the working directory if there is one. Raises
    `ConfigError` for a wrong key or value. The tables are not touched before they are used.
    """
    settings = load_settings(None if config is None else str(config))
    with ExitStack() as cleanup:
        yield OpenLake(settings, build_lake(settings), cleanup)
