"""Whatever operators send, the answer is an answer: never a fault of the house."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.api.query.models import MAX_BODY_BYTES
from tests.api.operating import send
from tests.api.running import JSON

if TYPE_CHECKING:
    from tests.api.querying import Client

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "task": st.sampled_from(["compact", "autopilot"]) | anything,
        "table": st.sampled_from(["spans", ""]) | anything,
        "tables": st.text() | anything,
        "window": st.dates().map(str) | anything,
        "reason": st.text() | anything,
        "until": st.datetimes().map(lambda moment: f"{moment.isoformat()}Z") | anything,
        "policies": st.lists(
            st.fixed_dictionaries(
                {"name": st.text(max_size=5) | anything},
                optional={"tasks": st.dictionaries(st.sampled_from(["compact", "x"]), anything, max_size=2) | anything},
            )
            | anything,
            max_size=2,
        )
        | anything,
    },
)


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from([("POST", "jobs"), ("POST", "pauses"), ("PUT", "policies")]), body=bodies | anything)
def test_whatever_is_sent_is_answered(operator: Client, where: tuple[str, str], body: Any) -> None:
    """Done, or refused with words; never a fault of the house."""
    reply = send(operator, *where, body, {"if-match": "*", **JSON})
    assert reply.status in (200, 201, 202, 400, 415)


def test_bodies_are_bounded_and_json(operator: Client) -> None:
    """Other kinds, other lengths and keys that stand twice are refused."""
    large = b'{"reason": "' + b"x" * MAX_BODY_BYTES + b'"}'
    for path, method in (("jobs", "POST"), ("pauses", "POST"), ("policies", "PUT")):
        headers = {**JSON, "if-match": "*"}
        place = f"/api/v1/{path}"
        assert operator.send(method, place, large, headers).status == 413
        assert operator.send(method, place, b"{}", {"content-type": "text/plain", "if-match": "*"}).status == 415
        assert operator.send(method, place, b'{"task": "compact", "task": "search"}', headers).status == 400
        assert operator.send(method, place, b'{"a":' * 10_000, headers).status == 400
