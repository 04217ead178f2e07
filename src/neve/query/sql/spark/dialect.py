"""Spark's SQL dialect, for statements that are written for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from neve.query.sql.dialect import Source

if TYPE_CHECKING:
    from sqlglot import exp


class SparkSql(Spark):
    """Spark's dialect with sources."""

    class Generator(SparkGenerator):
        """Generator of SQL for Spark."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {**SparkGenerator.TRANSFORMS, Source: lambda _, node: node.args["this"]}

        def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
            """Write IGNORE NULLS after the call, for any function."""
            return f"{self.sql(expression, 'this')} IGNORE NULLS"

        def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
            """Write RESPECT NULLS as `ignorenulls_sql` does."""
            return f"{self.sql(expression, 'this')} RESPECT NULLS"

        def literal_sql(self, expression: exp.Literal) -> str:
            """Write text with Spark's escapes.

            `$` is escaped too, since Spark substitutes variables in `${…}` before it parses.
            """
            if not expression.is_string:
                return str(expression.this)
            said = str(expression.this).replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
            return f"'{said}'"


SPARK = SparkSql()
