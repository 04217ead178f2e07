"""What users set about queries."""

from pydantic import Field

from neve.model.section import Section


class QueryConfig(Section):
    """How interactive queries run."""

    threads: int = Field(0, ge=0, le=1024, description="threads of DuckDB; 0 for all cores")
    memory_limit: str = Field("4GB", pattern=r"^\d+(MB|GB)$", description="memory that DuckDB may use")
    max_rows: int = Field(1000, ge=1, description="rows that a terminal table shows at most; files get all rows")
