"""Strategies of compaction, by the names that users give."""

from neve.compact.strategies.base import Draft, Strategy
from neve.compact.strategies.builtin import Adaptive, Cost, Deletes, Dimensional, SmallFiles, TimeSeries
from neve.errors import ConfigError

__all__ = ["STRATEGIES", "Draft", "Strategy", "strategy_of"]

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Adaptive(), SmallFiles(), Deletes(), TimeSeries(), Dimensional(), Cost())
}


def strategy_of(name: str) -> Strategy:
    """Return the strategy of a name. Raises `ConfigError` if there is none."""
    if name not in STRATEGIES:
        raise ConfigError(f"strategy is {name!r}, expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
