"""Policies over HTTP: read with their version, written by one of many, refused as a whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.operating import error_of, send

if TYPE_CHECKING:
    from tests.api.querying import Client

POLICIES = {"policies": [{"name": "nightly", "tables": ["m*"], "tasks": {"compact": {"cron": "30 2 * * *"}}}]}


def test_policies_are_written_by_who_has_read_them(operator: Client) -> None:
    """By their ETag: without it, or with an old one, nothing is changed."""
    read = send(operator, "GET", "policies")
    before = read.headers["etag"]
    assert (read.json["policies"], before) == ([], f'"{read.json["version"]}"')
    assert error_of(send(operator, "PUT", "policies", POLICIES))[:2] == (428, "no_version")
    assert error_of(send(operator, "DELETE", "policies"))[:2] == (428, "no_version")
    assert error_of(send(operator, "PUT", "policies", POLICIES, {"if-match": '"0"'}))[:2] == (412, "changed")
    for wrong in ("7", 'W/"7"', '"7", "8"', '""'):
        assert error_of(send(operator, "PUT", "policies", POLICIES, {"if-match": wrong}))[:2] == (400, "bad_request")
    written = send(operator, "PUT", "policies", POLICIES, {"if-match": before})
    assert (written.status, written.json["policies"]) == (200, POLICIES["policies"])
    assert written.json["source"].startswith("written by anyone on this machine at ")
    assert error_of(send(operator, "DELETE", "policies", headers={"if-match": before}))[:2] == (412, "changed")
    cleared = send(operator, "DELETE", "policies", headers={"if-match": written.headers["etag"]})
    assert (cleared.status, cleared.headers["etag"]) == (200, before)
    assert send(operator, "PUT", "policies", POLICIES, {"if-match": "*"}).status == 200


def test_of_many_who_write_at_once_one_wins(operator: Client) -> None:
    """All others are told that they read something older."""
    etag = send(operator, "GET", "policies").headers["etag"]

    def write(number: int) -> int:
        body = {"policies": [{**POLICIES["policies"][0], "name": f"n{number}"}]}
        return send(operator, "PUT", "policies", body, {"if-match": etag}).status

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(write, range(6))) == [200, 412, 412, 412, 412, 412]


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            [{"name": "n", "tasks": {"compact": {"cron": "every day"}}}],
            "policy 'n': tasks.compact.cron: got 'every day', which has 2 fields, expected five",
        ),
        ([{"name": "n", "colour": "red"}], "policy 'n': colour: unknown key"),
        ([{"name": "n", "tasks": {"drop": {"every": "1d"}}}], "policy 'n': tasks.drop"),
        ([POLICIES["policies"][0]] * 2, "a policy has the name 'nightly', expected another one: it is used twice"),
        ({"name": "n"}, "expected a list of policies"),
        (None, "policies is null, expected a list of policies"),
    ],
)
def test_wrong_policies_are_refused_as_a_whole(operator: Client, policies: Any, words: str) -> None:
    """With the policy, the key, the value and what was expected; those that hold go on to hold."""
    before = send(operator, "GET", "policies").json
    status, code, message = error_of(send(operator, "PUT", "policies", {"policies": policies}, {"if-match": "*"}))
    assert (status, code) == (400, "bad_request")
    assert words in message
    assert send(operator, "GET", "policies").json == before
