"""The page about Spark clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.app.settings import load_settings
from tests.docs.markdown import ROOT, split_code

if TYPE_CHECKING:
    from pathlib import Path


def test_its_configuration_is_accepted(tmp_path: Path) -> None:
    """Settings are checked by the loader that users have."""
    _prose, blocks = split_code((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"))
    file = tmp_path / "neve.yaml"
    file.write_text("\n".join(blocks[0].lines))
    settings = load_settings(str(file), {})
    assert settings.spark.master == "spark://spark-master:7077"
    assert settings.spark.conf["spark.cores.max"] == "4"
