"""How often a job is tried, how long it waits in between, and which failures waiting does not mend."""

from pydantic import Field, model_validator

from neve.errors import ConfigError, EnvironmentFault, IncompatibleTable
from neve.model.section import Section

# Whoever runs Neve must change something first; another attempt would only fail once more.
HOPELESS = (ConfigError, EnvironmentFault, IncompatibleTable)


class Retry(Section):
    """A job that fails is tried again, each time after twice as long; in the end a person must look at it."""

    attempts: int = Field(5, ge=1, description="how often a job is tried before it is dead")
    first_seconds: float = Field(5, ge=0, description="how long it waits after its first failure; then twice as long")
    most_seconds: float = Field(600, ge=0, description="the longest that it waits")

    @model_validator(mode="after")
    def _grows(self) -> "Retry":
        if self.most_seconds < self.first_seconds:
            raise ValueError(
                f"most_seconds is {self.most_seconds:g}, expected at least first_seconds ({self.first_seconds:g})"
            )
        return self

    def delay(self, attempts: int) -> float:
        """The seconds to wait after so many attempts that failed.

        >>> [Retry().delay(attempts) for attempts in (1, 2, 3, 9)]
        [5.0, 10.0, 20.0, 600.0]
        """
        doublings = min(max(attempts - 1, 0), 60)  # further ones change nothing but the size of the number
        return min(float(self.first_seconds * 2**doublings), float(self.most_seconds))

    def is_last(self, attempts: int, error: Exception) -> bool:
        """Whether no attempt follows those that there were."""
        return attempts >= self.attempts or isinstance(error, HOPELESS)
