"""Requests to forges: patient where that helps, clear where it does not, and silent about the token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from neve.autopilot.config import ProposeConfig
from neve.autopilot.propose.forge import ForgeError
from neve.autopilot.propose.forge_http import detect_busy
from neve.autopilot.propose.proposals import MergeDecision, Proposals, build_forge
from tests.autopilot.propose.conftest import github_config, gitlab_config
from tests.autopilot.propose.examples import PROPOSAL
from tests.autopilot.propose.github_server import TOKEN
from tests.autopilot.propose.loopback import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.autopilot.propose.github_server import GitHubServer
    from tests.autopilot.propose.gitlab_server import GitLabServer

LIMITS = [
    Answer(429, {"message": "slow down"}, {"Retry-After": "1"}),
    Answer(403, {"message": "API rate limit exceeded"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}),
    Answer(503, {"message": "unicorn"}),
]


@pytest.fixture
def proposals(github: GitHubServer) -> Iterator[Proposals]:
    """Proposals on GitHub's server."""
    config = github_config(github)
    forge = build_forge(config)
    yield Proposals(forge, config)
    forge.close()


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: str(one.status))
def test_a_busy_forge_is_asked_again(github: GitHubServer, proposals: Proposals, limit: Answer) -> None:
    """Limits and outages pass; the log says so, without the token."""
    github.failures = [limit]
    with capture_logs() as logs:
        assert proposals.propose(PROPOSAL).action == "opened"
    assert [line["event"] for line in logs] == ["retrying request to the forge"]
    assert TOKEN not in str(logs)


def test_what_a_post_may_have_made_is_not_made_twice(github: GitHubServer, proposals: Proposals) -> None:
    """An outage in the answer to a POST ends the attempt; the next one finds what is there."""
    answer = github._make_pull
    github._routes = [
        (
            method,
            path,
            (lambda asked: (answer(asked), Answer(502, {"message": "bad gateway"}))[1]) if one == answer else one,
        )
        for method, path, one in github._routes
    ]
    with pytest.raises(ForgeError, match="failed in 1 attempts: the forge responded with 502"):
        proposals.propose(PROPOSAL)
    assert proposals.propose(PROPOSAL).action == "unchanged"
    assert len(github.hosted.pulls) == 1


def test_a_forge_that_makes_up_its_mind_is_waited_for(github: GitHubServer, proposals: Proposals) -> None:
    """Right after a push it can't tell whether a merge would work, and refuses until it can."""
    proposals.propose(PROPOSAL)
    answer, refusals = github._merge, [Answer(405, {"message": "Pull Request is not mergeable"})]
    github._routes = [
        (method, path, (lambda asked: refusals.pop() if refusals else answer(asked)) if one == answer else one)
        for method, path, one in github._routes
    ]
    assert proposals.merge(PROPOSAL, MergeDecision(True, "within bounds")).is_merged


def test_a_limit_that_lasts_is_an_error_that_says_how_long(github: GitHubServer, proposals: Proposals) -> None:
    """A pause that would end too late is not begun."""
    github.failures = [Answer(403, {"message": "secondary rate limit"})]
    with (
        capture_logs() as logs,
        pytest.raises(ForgeError, match="limits requests for another 60 s: secondary rate limit"),
    ):
        proposals.propose(PROPOSAL)
    assert logs == []
    assert len(github.asked) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(401, {"message": "Bad credentials"}), "token is missing, wrong or expired"),
        (Answer(403, {"message": "Resource not accessible"}), "lacks write access"),
        (Answer(404, {"message": "Not Found"}), "repository is wrong"),
        (Answer(301, {"message": "Moved"}, {"Location": "/elsewhere"}), "was moved"),
        (Answer(422, {"message": "Validation Failed", "errors": [{"field": "base"}]}), '"field": "base"'),
        (Answer(200, "<html>"), "expected JSON"),
    ],
    ids=lambda one: str(getattr(one, "status", "")),
)
def test_a_refusal_is_clear(github: GitHubServer, proposals: Proposals, answer: Answer, said: str) -> None:
    """Once, with what the forge said and what to do; never with the token."""
    github.failures = [answer]
    with pytest.raises(ForgeError) as error:
        proposals.propose(PROPOSAL)
    assert said in str(error.value)
    assert TOKEN not in str(error.value)
    assert len(github.asked) == 1


def test_a_forge_that_is_not_there_is_an_error(github: GitHubServer) -> None:
    """Nobody listens on its port any more."""
    config = github_config(github, retry_seconds=0)
    github.close()
    with pytest.raises(ForgeError, match="no connection to http"):
        Proposals(build_forge(config), config).propose(PROPOSAL)


def test_gitlab_refuses_a_wrong_token(gitlab: GitLabServer) -> None:
    """Its words of an error are another's, too."""
    config = gitlab_config(gitlab, token="wrong")  # noqa: S106 - wrong on purpose
    with pytest.raises(ForgeError, match="failed with 401: 401 Unauthorized"):
        Proposals(build_forge(config), config).propose(PROPOSAL)


def test_a_reset_in_the_future_is_waited_for() -> None:
    """In seconds from now, though forges tell the hour."""
    reset = int(time.time()) + 100
    busy = detect_busy(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset)}, "")
    assert busy is not None
    assert reset - time.time() - 1 <= (busy.after or 0) <= 100
    assert detect_busy(403, {}, "not yours") is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"forge": "github", "repository": "a/b"}, "should have a token"),
        ({"forge": "github", "repository": "a/b/c", "token": "x"}, "owner/name"),
        ({"forge": "gitlab", "repository": "a", "token": "x"}, "owner/name"),
        ({"url": "http://forge.example.com"}, "https"),
        ({"url": "https://me:pass@forge.example.com"}, "no user"),
        ({"folder": "../up"}, "within the repository"),
        ({"folder": ".git/hooks"}, "within the repository"),
        ({"author_name": "a\nb"}, "one line"),
        ({"remote": "--upload-pack=x"}, "not begin with -"),
    ],
)
def test_bad_settings_are_refused_at_the_start(keys: dict[str, str], said: str) -> None:
    """A token in the clear, a path out of the repository, an argument in disguise."""
    with pytest.raises(ValidationError, match=said):
        ProposeConfig.model_validate(keys)


def test_a_token_is_never_shown() -> None:
    """Not by the settings either."""
    config = ProposeConfig(forge="github", repository="a/b", token=TOKEN)
    assert TOKEN not in f"{config!r} {config.model_dump_json()}"
    assert config.api == "https://api.github.com"
