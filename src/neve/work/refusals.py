"""What is asked about work and can't be done."""

from neve.errors import NeveError


class WorkMissing(NeveError):
    """Raised when there is no job, or no pause, of an id."""


class WorkRefused(NeveError):
    """Raised when a job is in a state in which it can't be cancelled or replayed."""


class WorkUnreadable(WorkRefused):
    """Raised when what is open of a subject has values that only a newer release knows."""
