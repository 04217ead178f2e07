"""The levels of rollups: their windows, their tables and the source of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """One level of the rollup chain: the length of its windows and its source table."""

    name: str
    seconds: int
    window: str
    unit: str
    source: str

    @property
    def table(self) -> str:
        """The table's name."""
        return f"metrics_{self.name}"

    @property
    def micros(self) -> int:
        """The length of a window in microseconds."""
        return self.seconds * 1_000_000


LEVELS = (
    Level("1m", 60, "minute", "day", "metrics"),
    Level("5m", 300, "five minutes", "day", "metrics_1m"),
    Level("1h", 3600, "hour", "month", "metrics_5m"),
    Level("1d", 86_400, "day", "year", "metrics_1h"),
)
