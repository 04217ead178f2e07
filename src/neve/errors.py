r"""The one error tree.

    NeveError                  what a user can act on; everything else is a bug
    ├── ConfigError            a key, its value, what was expected
    ├── EnvironmentFault       Java, a jar or a package that is missing or too old
    ├── WireError              bytes that are not the OTLP message they claim to be
    ├── InputError             a file that can't be read as the format it claims
    │   ├── UnknownSignal      a file that may hold logs, metrics or traces
    │   ├── FileTooLarge       a file that is larger than it may be, stored or unpacked
    │   └── InvalidWeight      a weight that nothing can be sampled by
    ├── LakeError              the catalog, the warehouse or a table
    │   ├── TableMissing       a table that was never created
    │   ├── IncompatibleTable  a table whose columns can't become the declared ones
    │   ├── CommitConflict     another writer won, and retrying did not help
    │   ├── CommitUnknown      nobody can tell whether the commit happened
    │   ├── LeaseTaken         another one holds what is to be held by one alone
    │   └── LeaseLost          what was held by one alone is held no longer
    ├── StreamFailed           a stream ended in an error
    ├── RawZoneError           what was received could not be made durable
    ├── Cancelled              work that nobody wants any more, given up before its end
    └── QueryError             SQL that can't be answered
        ├── LimitExceeded      SQL that would take more than its sender may have
        └── QueryCancelled     SQL whose answer nobody wants any more

A message says what failed, the key or record, the value, what was expected and what to do: lower case, no full stop.
"""


class NeveError(Exception):
    """Raised when something fails that the user can act on."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class ConfigError(NeveError):
    """Raised when the configuration has an unknown key or a bad value."""


class EnvironmentFault(NeveError):
    """Raised when the machine lacks something that a command needs."""


class WireError(NeveError):
    """Raised when bytes can't be decoded as the OTLP message that they claim to be."""


class InputError(NeveError):
    """Raised when a file can't be read as the format that it claims to be."""


class UnknownSignal(InputError):
    """Raised when neither a file's name nor its content tells its signal."""


class FileTooLarge(InputError):
    """Raised when a file, or what it unpacks to, is larger than the settings allow."""


class InvalidWeight(InputError):
    """Raised when a record's weight is not a finite number above 0."""


class LakeError(NeveError):
    """Raised when the catalog, the warehouse or a table refuses an operation."""


class TableMissing(LakeError):
    """Raised when a table is not in the catalog."""


class IncompatibleTable(LakeError):
    """Raised when an existing table can't evolve to the declared columns without a rewrite."""


class CommitConflict(LakeError):
    """Raised when other writers kept winning until the retries were used up."""


class CommitUnknown(LakeError):
    """Raised when a commit may or may not have happened; its files must not be deleted."""


class LeaseTaken(LakeError):
    """Raised when another owner holds a lease that has not expired."""


class LeaseLost(LakeError):
    """Raised when a holder can't be sure that its lease is still its own; it must not publish what it made."""


class StreamFailed(NeveError):
    """Raised when a stream ends in an error; what it has committed stays, and it can be started again."""


class RawZoneError(NeveError):
    """Raised when received bytes can't be made durable; whoever sent them must send them again.

    `public` is the reason as senders are told it: without paths and names of this machine.
    """

    def __init__(self, message: str, *, hint: str | None = None, public: str = "") -> None:
        super().__init__(message, hint=hint)
        self.public = public


class Cancelled(NeveError):
    """Raised when work is given up because it was asked to; nothing failed, and what was done so far stays."""


class QueryError(NeveError):
    """Raised when a statement can't be parsed, planned or answered."""


class LimitExceeded(QueryError):
    """Raised when a statement needs more time, memory, bytes or rows than it may have; `limit` names the setting."""

    def __init__(self, message: str, *, limit: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit


class QueryCancelled(QueryError):
    """Raised when a query is ended from elsewhere."""
