"""Each process of `neve serve` imports what it runs: the rest would cost it time at the start, and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

ENGINES = {"pandas", "pyspark", "pyiceberg", "sqlalchemy", "duckdb", "sqlglot", "rich"}
SCRIPT = """
import sys
from importlib import import_module
from neve.lake.pandas_import import defer_pandas
from neve.logger import load_structlog

defer_pandas()
load_structlog()
for name in sys.argv[1].split():
    import_module(name)
print(*sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (
            "neve.api.group_supervisor neve.jobs.policies neve.receive.config",
            {*ENGINES, "pyarrow", "numpy", "grpc", "urllib3"},
        ),
        ("neve.api.serve_process neve.api.server", ENGINES),
        ("neve.api.serve_process neve.api.api_server", {*ENGINES, "pyarrow", "numpy", "grpc"}),
        ("neve.api.serve_process neve.api.api_application", {"pandas", "pyspark", "sqlalchemy", "grpc", "rich"}),
        ("neve.api.serve_process neve.app.serve.parts", {"pandas", "pyspark"}),
    ],
    ids=["group", "receiver", "api port", "api", "worker"],
)
def test_a_process_imports_no_engine_of_others(modules: str, unwanted: set[str]) -> None:
    """Packages that only some requests or jobs need are imported with the first of them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, modules], capture_output=True, text=True, check=True)
    assert unwanted.isdisjoint(done.stdout.split())
