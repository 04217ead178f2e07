"""Signing in with a browser: the key is typed once, organizations are apart, and signing out ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.page.demo_lake import ORGANIZATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page.conftest import Keyed, Visitor


def test_sign_in_switch_and_sign_out(visit: Callable[..., Visitor], keyed: Keyed) -> None:
    """Each organization sees its own records; the key is in no storage and in no address."""
    own, other = keyed.keys[ORGANIZATION], keyed.keys["empty"]
    visitor = visit(keyed.server)
    page = visitor.open("/logs")
    assert visitor.violations() == []
    page.get_by_label("API key").fill("neve_wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("this is not an API key").wait_for()
    page.get_by_label("API key").fill(own)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("grid", name="Log records").get_by_role("row").nth(3).wait_for()
    stored = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert own not in stored
    assert "neve-session" not in stored
    page.get_by_role("button", name=ORGANIZATION, exact=True).click()
    page.get_by_label("API key of another organization").fill(other)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("No records between").wait_for()
    assert visitor.violations() == []
    page.get_by_role("button", name="empty", exact=True).click()
    page.get_by_role("button", name=f"Switch to {ORGANIZATION}").click()
    page.get_by_role("grid", name="Log records").get_by_role("row").nth(3).wait_for()
    page.get_by_role("button", name=ORGANIZATION, exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key").wait_for()
    page.reload()
    page.get_by_label("API key").wait_for()
