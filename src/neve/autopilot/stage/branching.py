"""The branches that are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.branches import IcebergBranches
from neve.lake.lakefs_branches import LakeFSBranches
from neve.lake.nessie_branches import NessieBranches

if TYPE_CHECKING:
    from neve.autopilot.stage_config import StageConfig
    from neve.lake.branches import Branches
    from neve.lake.lake import Lake


def branches_of(config: StageConfig, lake: Lake, table: str) -> Branches:
    """Iceberg's own branches of a table, or those of the server that versions its catalog or its files."""
    match config.branches:
        case "nessie":
            return NessieBranches(config.nessie.url, config.nessie.token.get_secret_value())
        case "lakefs":
            one = config.lakefs
            return LakeFSBranches(one.endpoint, one.repository, one.access_key, one.secret_key.get_secret_value())
    return IcebergBranches(lake, table)
