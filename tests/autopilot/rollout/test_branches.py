"""The one suite of branches: Iceberg's own for real, Nessie's on a real server, lakeFS's on a loopback stand-in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from neve.errors import CommitConflict, ConfigError, LakeError
from neve.lake.commit.branch_servers import LakeFSBranches, NessieBranches
from neve.lake.commit.branches import IcebergBranches, branch_name, tag_name
from tests.autopilot.rollout import nessie as nessie_part
from tests.autopilot.rollout.lakefs import KEYS, REPOSITORY, lakefs
from tests.autopilot.rollout.orders import TABLE, append, make_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.commit.branches import Branches
    from neve.lake.lake import Lake

pytestmark = pytest.mark.long

NAME = branch_name("a")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class System:
    """A system of branches, and how somebody writes to one of them."""

    branches: Branches
    write: Callable[[str], None]

    @property
    def main(self) -> str:
        """Main's version."""
        return cast("str", self.branches.head("main"))


@pytest.fixture
def iceberg(make_lake: Callable[..., Lake]) -> System:
    """A table with two commits."""
    lake = make_lake(init=False)
    make_orders(lake, 2)

    def write(branch: str) -> None:
        if branch == "main":
            append(lake, next(_numbers) * 1000, 3)
            return
        # pyiceberg writes to any branch of a table.
        lake.table(TABLE).append(lake.table(TABLE).scan(limit=1).to_arrow(), branch=branch)

    return System(IcebergBranches(lake, TABLE), write)


@pytest.fixture(scope="module")
def nessie_server() -> Iterator[nessie_part.Nessie]:
    """A real server for the whole module."""
    reason = nessie_part.missing()
    if reason is not None:
        pytest.skip(reason)
    with nessie_part.nessie() as server:
        yield server


@pytest.fixture
def nessie(nessie_server: nessie_part.Nessie) -> Iterator[System]:
    """The server, with a commit on main and no branch."""
    nessie_server.put("main", f"first{next(_numbers)}", 0)
    branches = NessieBranches(nessie_server.url)
    table = f"orders{next(_numbers)}"

    def write(branch: str) -> None:
        nessie_server.put(branch, table, next(_numbers))

    yield System(branches, write)
    for name in branches.names():
        branches.remove(name)


@pytest.fixture
def lakefs_loopback() -> Iterator[System]:
    """A repository on a loopback server."""
    with lakefs() as server:

        def write(branch: str) -> None:
            server.write(branch, "orders/metadata.json", next(_numbers))
            if branch == "main":
                server.commit(branch)

        yield System(LakeFSBranches(server.url, REPOSITORY, *KEYS), write)


@pytest.fixture(params=["iceberg", "nessie", "lakefs_loopback"])
def system(request: pytest.FixtureRequest) -> System:
    """Each system in turn."""
    return cast("System", request.getfixturevalue(request.param))


def test_a_branch_begins_at_a_version_of_main(system: System) -> None:
    """It stands there, is listed, and making it again changes nothing."""
    branches, main = system.branches, system.main
    assert branches.head(NAME) is None
    branches.create(NAME, main)
    branches.create(NAME, main)
    assert (branches.head(NAME), branches.names()) == (main, (NAME,))


def test_a_branch_is_not_moved_by_making_it_again(system: System) -> None:
    """One that stands elsewhere is a conflict, not overwritten."""
    branches, main = system.branches, system.main
    branches.create(NAME, main)
    system.write("main")
    with pytest.raises(CommitConflict, match="expected"):
        branches.create(NAME, system.main)
    assert branches.head(NAME) == main


def test_only_our_branches_are_listed_and_removed(system: System) -> None:
    """All of ours, in order, also over several pages; what is gone can be removed again; main is safe."""
    branches = system.branches
    names = tuple(branch_name(one) for one in "abc")
    for name in reversed(names):
        branches.create(name, system.main)
    assert branches.names() == names
    branches.remove(names[1])
    branches.remove(names[1])
    assert branches.names() == (names[0], names[2])
    with pytest.raises(LakeError, match="not the autopilot's"):
        branches.remove("main")
    with pytest.raises(LakeError, match="not the autopilot's"):
        branches.create("feature", system.main)


def test_a_merge_brings_main_to_the_branch(system: System) -> None:
    """Main does not see what a branch has until then; merging nothing is no error."""
    branches, before = system.branches, system.main
    branches.create(NAME, before)
    assert branches.merge(NAME) == before
    system.write(NAME)
    assert system.main == before
    after = branches.merge(NAME)
    assert system.main == after != before


def test_a_merge_is_refused_where_main_went_another_way(system: System) -> None:
    """Both changed the same table: main keeps what it has."""
    branches = system.branches
    system.write("main")
    branches.create(NAME, system.main)
    system.write(NAME)
    system.write("main")
    main = system.main
    with pytest.raises(CommitConflict):
        branches.merge(NAME)
    assert system.main == main


def test_a_branch_that_is_not_there_is_not_merged(system: System) -> None:
    """It is an error that names the branch."""
    with pytest.raises(LakeError, match=NAME):
        system.branches.merge(NAME)


def test_names_come_from_ids_that_every_system_takes() -> None:
    """An id with a slash or a dot would be another folder, or the name of what goes with another branch."""
    assert tag_name("a1") == "neve-before-a1"
    for wrong in ("", "a/b", "a b", "a.r1", "x" * 65):
        with pytest.raises(ConfigError, match="the attempt's id"):
            branch_name(wrong)


def test_a_secret_that_is_wrong_is_refused_and_not_shown() -> None:
    """The error names the server's word, not the key."""
    with lakefs() as server:
        branches = LakeFSBranches(server.url, REPOSITORY, "AKIA", "hunter2")
        with pytest.raises(LakeError, match="401: error authenticating request") as caught:
            branches.names()
        assert "hunter2" not in str(caught.value)


def test_a_server_that_is_away_is_said() -> None:
    """No answer is an error that names the address."""
    with pytest.raises(LakeError, match=r"nessie at http://127\.0\.0\.1:1/api/v2 does not respond"):
        NessieBranches("http://127.0.0.1:1/api/v2", "t0ken").head("main")
