"""How it is said that Spark can't answer a query as DuckDB does."""


class NotPortable(Exception):
    """Raised when Spark would give another answer, or none; says what of the query is the reason."""
