"""Pure parts of the page, tested by Node's own runner over generated cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.page_types import FILE, write_types

PAGE = Path(__file__).parents[2] / "page"
NODE = Path(sys.executable).parent / "node"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in (PAGE / "test").glob("*.test.ts")))
def test_pure_part(name: str) -> None:
    """Every property of the file holds."""
    if not NODE.is_file():
        pytest.skip(f"node: there is no {NODE} (make setup)")
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("page: node_modules is missing (make page)")
    command = [str(NODE), "--test", "--test-reporter=tap", str(PAGE / "test" / name)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
    assert "# pass 0" not in run.stdout


def test_types_follow_the_api() -> None:
    """The types of the page are those of OpenAPI; after a change run `make page-types` and `make check-page`."""
    assert FILE.read_text() == write_types()
