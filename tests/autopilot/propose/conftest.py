"""The three forges that the contract runs over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.config import ProposeConfig
from neve.autopilot.propose.proposals import Proposals, build_forge
from tests.autopilot.propose import github_server, gitlab_server
from tests.autopilot.propose.github_server import GitHubServer
from tests.autopilot.propose.gitlab_server import GitLabServer
from tests.autopilot.propose.people import ForgePeople, GitPeople, People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.autopilot.propose.forge import Forge


@dataclass(frozen=True)
class Bench:
    """A forge, those who use it, and what the autopilot does with it."""

    name: str
    config: ProposeConfig
    forge: Forge
    people: People

    @property
    def proposals(self) -> Proposals:
        """The autopilot's side."""
        return Proposals(self.forge, self.config)


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """A loopback server with GitHub's endpoints."""
    server = GitHubServer()
    yield server
    server.close()


@pytest.fixture
def gitlab() -> Iterator[GitLabServer]:
    """A loopback server with GitLab's endpoints."""
    server = GitLabServer()
    yield server
    server.close()


def github_config(server: GitHubServer, **more: Any) -> ProposeConfig:
    """How GitHub's server is reached."""
    keys = {"repository": "acme/specs", "url": server.url, "token": github_server.TOKEN, "retry_seconds": 3, **more}
    return ProposeConfig(forge="github", **keys)


def gitlab_config(server: GitLabServer, **more: Any) -> ProposeConfig:
    """How GitLab's server is reached."""
    url, token = f"{server.url}/api/v4", gitlab_server.TOKEN
    keys = {"repository": "acme/lake/specs", "url": url, "token": token, "retry_seconds": 3, **more}
    return ProposeConfig(forge="gitlab", **keys)


@pytest.fixture(params=["local git", "GitHub on loopback", "GitLab on loopback"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Each forge: git for real, the others as servers on loopback that follow their documentation."""
    people: People
    if request.param == "local git":
        config = ProposeConfig(repository=str(tmp_path / "specs"))
        people = GitPeople(tmp_path / "specs")
    elif request.param == "GitHub on loopback":
        server = request.getfixturevalue("github")
        config, people = github_config(server), ForgePeople(server.hosted)
    else:
        server = request.getfixturevalue("gitlab")
        config, people = gitlab_config(server), ForgePeople(server.hosted)
    forge = build_forge(config)
    yield Bench(request.param, config, forge, people)
    forge.close()
