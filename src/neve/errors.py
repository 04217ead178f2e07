r"""Errors of Neve, in one tree.

    NeveError                  an error that a user can act on; all others are bugs
    ├── ConfigError            a key, its value, what was expected
    ├── EnvironmentFault       Java, a jar or a package that is missing or too old
    ├── WireError              bytes that are not the OTLP message they claim to be
    ├── InputError             a file that can't be read as the format it claims
    │   ├── UnknownSignal      a file with an undetermined signal: logs, metrics or traces
    │   ├── UnknownFields      a file without a field that has a known meaning
    │   ├── UnknownLines       a log file whose lines are of no known format
    │   ├── FileTooLarge       a file that exceeds the size limit, stored or decompressed
    │   ├── InvalidWeight      a sampling weight that is not valid
    │   └── InvalidRules       a rule file or a file of rule tests that is not valid
    ├── LakeError              the catalog, the warehouse or a table
    │   ├── TableMissing       a table that was never created
    │   ├── IncompatibleTable  a table whose columns can't become the declared ones
    │   ├── CommitConflict     another writer won, and retrying did not help
    │   ├── CommitUnknown      it is unknown whether the commit happened
    │   ├── LeaseTaken         another owner holds the lease
    │   └── LeaseLost          the lease is no longer held
    ├── StreamFailed           a stream ended in an error
    ├── RawZoneError           received bytes could not be made durable
    ├── Cancelled              work that was cancelled on request
    └── QueryError             SQL or PromQL that can't be executed
        ├── LimitExceeded      SQL or PromQL that exceeds a limit of its caller
        ├── QueryCancelled     SQL that was cancelled
        ├── InvalidExpression  PromQL that can't be parsed, or whose types don't fit
        ├── EvaluationFailed   PromQL that can't be evaluated on the selected series
        └── TraceMissing       a trace that is not stored

A message has what failed, the key or record, the value, what was expected and what to do: lower case, no full stop.
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
    """Raised when neither the name nor the content of a file determines its signal."""


class UnknownFields(InputError):
    """Raised when none of the fields of a file has a meaning that its signal needs."""


class UnknownLines(InputError):
    """Raised when the lines of a log file are not of the stated format, or of no known one."""


class FileTooLarge(InputError):
    """Raised when a file, or what it unpacks to, is larger than the settings allow."""


class InvalidWeight(InputError):
    """Raised when a record's weight is not a finite number above 0."""


class InvalidRules(InputError):
    """Raised when a rule file or a file of rule tests has errors. The message has one line for each."""


class LakeError(NeveError):
    """Raised when the catalog, the warehouse or a table rejects an operation."""


class TableMissing(LakeError):
    """Raised when a table is not in the catalog."""


class IncompatibleTable(LakeError):
    """Raised when an existing table can't evolve to the declared columns without a rewrite."""


class CommitConflict(LakeError):
    """Raised when other writers committed first until the retries were used up."""


class CommitUnknown(LakeError):
    """Raised when it is unknown whether a commit happened. Its files must not be deleted."""


class LeaseTaken(LakeError):
    """Raised when another owner holds a lease that has not expired."""


class LeaseLost(LakeError):
    """Raised when a holder can't be sure that its lease is still valid. The holder must not publish its results."""


class StreamFailed(NeveError):
    """Raised when a stream ends in an error. Its commits stay, and it can be restarted."""


class RawZoneError(NeveError):
    """Raised when received bytes can't be made durable. The client must send them again.

    `public` is the reason in the response to the client: without paths and names of this machine.
    """

    def __init__(self, message: str, *, hint: str | None = None, public: str = "") -> None:
        super().__init__(message, hint=hint)
        self.public = public


class Cancelled(NeveError):
    """Raised when work is cancelled on request. Nothing failed, and completed work stays."""


class QueryError(NeveError):
    """Raised when a statement can't be parsed, planned or executed."""


class LimitExceeded(QueryError):
    """Raised when a statement needs more time, memory, bytes or rows than allowed. `limit` names the setting."""

    def __init__(self, message: str, *, limit: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit


class QueryCancelled(QueryError):
    """Raised when a query is cancelled by another caller."""


class InvalidExpression(QueryError):
    """Raised when an expression can't be parsed, or its types don't fit. The message begins with line and column."""


class EvaluationFailed(QueryError):
    """Raised when an expression can't be evaluated, for example if series don't match one to one."""


class TraceMissing(QueryError):
    """Raised when the trace of a request is not stored, or belongs to another organization."""
