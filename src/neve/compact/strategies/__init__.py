"""The strategies, by the names that users give."""

from neve.compact.strategies.adaptive import Adaptive
from neve.compact.strategies.cost import Cost
from neve.compact.strategies.deletes import Deletes
from neve.compact.strategies.dimensional import Dimensional
from neve.compact.strategies.port import Draft, Strategy
from neve.compact.strategies.small_files import SmallFiles
from neve.compact.strategies.time_series import TimeSeries
from neve.errors import ConfigError

__all__ = ["STRATEGIES", "Draft", "Strategy", "strategy_of"]

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Adaptive(), SmallFiles(), Deletes(), TimeSeries(), Dimensional(), Cost())
}


def strategy_of(name: str) -> Strategy:
    """The strategy of that name; raises `ConfigError` where there is none."""
    if name not in STRATEGIES:
        raise ConfigError(f"strategy is {name!r}, expected one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
