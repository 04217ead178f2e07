"""How long to wait before something that failed is started again."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class Backoff:
    """Failures in a row; what ran well for longer than the longest pause is as good as new."""

    first_seconds: float
    most_seconds: float
    failures: int = 0

    def failed(self, ran_seconds: float) -> Backoff:
        """After one more failure of something that had been ready for so long."""
        before = 0 if ran_seconds > self.most_seconds else self.failures
        return Backoff(self.first_seconds, self.most_seconds, before + 1)

    @property
    def seconds(self) -> float:
        """The pause after these failures.

        >>> [Backoff(1.0, 30.0, failures).seconds for failures in (0, 1, 2, 5, 6, 5000)]
        [0.0, 1.0, 2.0, 16.0, 30.0, 30.0]
        """
        if not self.failures:
            return 0.0
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(self.failures - 1, MOST_DOUBLINGS))
