"""How long what a job holds stays held when its worker is killed: less long than the job itself.

Commands wait for one another for as long as the settings say. Here a job is claimed again 20 seconds after its worker's
last sign of life, and what the dead one held must be free by then, or the job would wait once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from neve.autopilot.config import AutopilotConfig
from neve.autopilot.stage_config import StageConfig
from neve.compact.config import CompactConfig
from neve.maintain.config import MaintainConfig
from neve.rollup.config import RollupConfig
from neve.search.config import SearchConfig

if TYPE_CHECKING:
    from neve.app.settings import Settings

Leasing = TypeVar("Leasing", AutopilotConfig, StageConfig, CompactConfig, MaintainConfig, RollupConfig, SearchConfig)

MOST_SECONDS = 15.0  # they are renewed three times in it, while they are held


def with_short_leases(settings: Settings) -> Settings:
    """The settings with leases of a few seconds, where they had longer ones; for those who do jobs, and nobody else.

    Sections that nobody set look as if somebody had, which others make something of.
    """
    stage = _short(settings.autopilot.stage)
    return settings.model_copy(
        update={
            "compact": _short(settings.compact),
            "maintain": _short(settings.maintain),
            "rollup": _short(settings.rollup),
            "search": _short(settings.search),
            "autopilot": _short(settings.autopilot).model_copy(update={"stage": stage}),
        }
    )


def _short(section: Leasing) -> Leasing:
    return section.model_copy(update={"lease_seconds": min(MOST_SECONDS, section.lease_seconds)})
