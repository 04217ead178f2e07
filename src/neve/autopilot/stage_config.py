"""What users set about staging, the canary and the merge."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from neve.model.section import Section

BranchKind = Literal["iceberg", "nessie", "lakefs"]


class NessieConfig(Section):
    """A Nessie server, whose branches isolate the whole catalog."""

    url: str = Field("", description="address of its API: https://host/api/v2")
    token: SecretStr = Field(SecretStr(""), description="bearer token; empty for none")


class LakeFSConfig(Section):
    """A lakeFS server, whose branches version the files of a repository."""

    endpoint: str = Field("", description="address of the server: https://host")
    access_key: str = Field("", description="id of the access key")
    secret_key: SecretStr = Field(SecretStr(""), description="the secret of the key")
    repository: str = Field("", description="repository that holds the warehouse's files")


class CanaryConfig(Section):
    """When a staged layout is good enough."""

    threshold_pct: float = Field(30, ge=0, le=100, description="least reduction of planned bytes, by its lower bound")
    confidence: float = Field(0.9, gt=0.5, lt=1, description="how sure the bounds are")
    tolerance: float = Field(
        1e-9, ge=0, lt=1e-3, description="how far aggregates of floating-point numbers may differ, relatively"
    )
    most_rows: int = Field(100_000, ge=1, description="rows of an answer that are compared with a tolerance")
    allow_literals: bool = Field(
        False, description="say why a query was not compared in the engine's words, which may show values of the query"
    )


class StageConfig(Section):
    """Where a new layout is tried, in which steps, and how it is published."""

    branches: BranchKind = Field("iceberg", description="whose branches: the table format's own, Nessie's or lakeFS's")
    nessie: NessieConfig = Field(NessieConfig(), description="Nessie")
    lakefs: LakeFSConfig = Field(LakeFSConfig(), description="lakeFS")
    step_bytes: int = Field(
        64 * 1024**3, ge=1, description="bytes that one step rewrites and commits; rows are laid out within it; 64 GB"
    )
    only_read: bool = Field(
        True, description="rewrite only files that a logged query reads now; compaction lays the others out in its time"
    )
    lease_seconds: float = Field(120, gt=0, description="how long a run that was killed keeps others off a table")
    merge_attempts: int = Field(20, ge=1, description="how often a merge is tried anew when main moves meanwhile")
    canary: CanaryConfig = Field(CanaryConfig(), description="when a staged layout is good enough")

    @model_validator(mode="after")
    def _is_reachable(self) -> Self:
        if self.branches == "nessie" and not self.nessie.url:
            raise ValueError("should have nessie.url, which branches = 'nessie' needs")
        if self.branches == "lakefs" and not (self.lakefs.endpoint and self.lakefs.repository):
            raise ValueError("should have lakefs.endpoint and lakefs.repository, which branches = 'lakefs' needs")
        return self
