"""One lake for all tests of queries: they only read."""

import pytest

from neve.lake.lake import Lake
from tests.query.lakes import make_lake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The lake of two organizations."""
    return make_lake(tmp_path_factory.mktemp("lake"))
