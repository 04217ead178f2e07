"""`neve audit`: changes by commands, as text and as JSON."""

from tests.cli.runner import run


def test_commands_leave_entries() -> None:
    """Keys with their organization, without the secret; revoking a key twice is one change."""
    made = run("keys", "create", "--org", "acme", "--name", "n", "--json").json
    for _time in range(2):
        assert run("keys", "revoke", made["id"]).code == 0
    found = run("audit", "--json").json
    assert [(one["action"], one["subject"], one["organization_id"]) for one in found] == [
        ("key.revoke", made["id"], "acme"),
        ("key.create", made["id"], "acme"),
    ]
    assert found[1]["details"] == {"name": "n", "scopes": "write,read"}
    assert made["key"].rsplit("_", 1)[1] not in run("audit").text
    assert [one["action"] for one in run("audit", "--action", "key.c", "--org", "acme", "--json").json] == [
        "key.create"
    ]


def test_filters_that_match_nothing_or_are_wrong() -> None:
    """The message names the columns."""
    assert run("audit").text == "there are no matching entries\n"
    ended = run("audit", "--where", "secret = 1")
    assert ended.code == 1
    assert "where is 'secret = 1'" in ended.errors
    assert "hint: the columns are organization_id, timestamp, entry_id" in ended.errors
