"""The audit log: durable at once, committed to the table once, and separate for each organization."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.app import audit as audit_module
from neve.app.audit import AuditFilter, commit_entries, commit_or_log, read_entries
from neve.errors import ConfigError, LakeError
from neve.lake.lake import Lake
from neve.model.audit import AUDIT
from neve.model.settings import LAKE_OWNER, check_organization
from neve.query.config import QueryConfig
from neve.query.service import run_query
from neve.receive.authentication import KeyGuard
from neve.receive.refusal import Refusal
from neve.state.audit import MAX_GROUPS, MAX_WAITING_REFUSALS, AuditLog, RefusedLogins, record_command
from neve.state.config import StateConfig
from neve.state.scopes import Caller, Scope
from neve.state.sqlite_documents import open_state_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.state.documents import Documents

NOW = datetime(2026, 1, 31, 8, 30, tzinfo=UTC)


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Documents]:
    """A state store in a file."""
    found = open_state_file(StateConfig(path=str(tmp_path / "state.db")))
    yield found
    found.close()


def waiting(documents: Documents) -> list[str]:
    """The actions that wait for their commit."""
    return [entry.action for _space, entry in AuditLog(documents).waiting()]


def test_no_organization_has_the_name_of_the_lake() -> None:
    """So no key and no query reaches entries of the whole lake."""
    with pytest.raises(ConfigError):
        check_organization(LAKE_OWNER)


@pytest.mark.slow
def test_entries_are_read_before_and_after_their_commit(lake: Lake, documents: Documents) -> None:
    """The same rows, newest first, and nothing waits afterwards."""
    record_command(documents, "key.create", "k1", "acme", scopes="write,read")
    record_command(documents, "pause.start", "p1", reason="migration\nof the store")
    before = read_entries(lake, documents, AuditFilter())
    assert [(row["organization_id"], row["action"], row["details"]) for row in before] == [
        (LAKE_OWNER, "pause.start", {"reason": "migration of the store"}),
        ("acme", "key.create", {"scopes": "write,read"}),
    ]
    assert all(row["actor"].startswith("user ") and row["origin"] for row in before)
    assert commit_entries(lake, documents) == 2
    assert waiting(documents) == []
    assert read_entries(lake, documents, AuditFilter()) == before
    assert commit_entries(lake, documents) == 0

    def find(**wanted: object) -> list[str]:
        return [row["action"] for row in read_entries(lake, documents, AuditFilter(**wanted))]  # type: ignore[arg-type]

    assert find(organization="acme") == find(action="key") == find(where="details['scopes'] <> ''") == ["key.create"]
    assert find(limit=1) == ["pause.start"]
    assert find(since=datetime.now(UTC) + timedelta(days=1)) == []
    with pytest.raises(ConfigError, match="where is 'nothing = 1'"):
        find(where="nothing = 1")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["append_once", "delete"])
def test_a_killed_commit_adds_each_entry_once(
    lake: Lake, documents: Documents, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed before or after the commit, the next process finishes the same batch; entries in between are not lost."""
    record_command(documents, "job.start", "j1")

    def die(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(audit_module if step == "append_once" else type(documents), step, die)
        commit_entries(lake, documents)
    assert waiting(documents) == ["job.start"]
    record_command(documents, "job.cancel", "j1")
    assert commit_entries(lake, documents) == 2
    rows = lake.table(AUDIT.name).scan().to_arrow()
    assert sorted(rows["action"].to_pylist()) == ["job.cancel", "job.start"]
    assert [row["action"] for row in read_entries(lake, documents, AuditFilter())] == ["job.cancel", "job.start"]


def test_a_lake_without_the_table_keeps_entries_waiting(tmp_path: Path, documents: Documents) -> None:
    """They can be read, and `neve init` lets them be committed."""
    lake = Lake(catalog_config=Lake().catalog_config.model_copy(update={"path": str(tmp_path / "none.db")}))
    record_command(documents, "policies.clear")
    commit_or_log(lake, documents)
    assert waiting(documents) == ["policies.clear"]
    assert [row["action"] for row in read_entries(lake, documents, AuditFilter())] == ["policies.clear"]


@pytest.mark.slow
def test_an_organization_reads_its_own_entries_only(lake: Lake, documents: Documents) -> None:
    """With SQL, from the table; neither those of others nor those of the lake."""
    for owner in ("acme", "globex", LAKE_OWNER):
        record_command(documents, "key.create", f"key-of-{owner}", owner)
    commit_entries(lake, documents)
    for owner in ("acme", "globex"):
        for where in ("true", "organization_id = '*'", "organization_id IN ('acme', 'globex', '*')"):
            statement = f"SELECT subject FROM audit WHERE {where}"
            found = run_query(lake, QueryConfig(), statement, owner).read_all()["subject"].to_pylist()
            assert found == ([] if where == "organization_id = '*'" else [f"key-of-{owner}"])


class Keys:
    """Two keys of one organization: one has expired, one may only read."""

    def verify(self, text: str) -> Caller | None:
        """Look a key up."""
        if text == "expired":
            return Caller("acme", "k1", expires_at=NOW)
        return Caller("acme", "k2", (Scope.READ,)) if text == "reader" else None


def test_refused_logins_are_counted_by_key_network_and_reason(documents: Documents) -> None:
    """With the organization of a known key; a request without a key is no login."""
    logins = RefusedLogins(AuditLog(documents), "receiver", now=lambda: NOW)
    guard = KeyGuard(Keys(), 5.0, refused=logins)

    async def attempt() -> None:
        for key, peer in [*(3 * [("wrong", "192.0.2.7")]), ("expired", "ipv4:192.0.2.8:1"), ("reader", ""), (None, "")]:
            with suppress(Refusal):
                await guard.caller(key, Scope.WRITE, peer)

    asyncio.run(attempt())
    logins.close()
    found = [entry for _space, entry in AuditLog(documents).waiting()]
    assert {(one.organization, one.actor, one.origin, one.details["reason"], one.occurrences) for one in found} == {
        (LAKE_OWNER, "", "192.0.2.7", "wrong_key", 3),
        ("acme", "key k1", "192.0.2.8", "expired_key", 1),
        ("acme", "key k2", "", "wrong_scope", 1),
    }
    assert {(one.subject, one.at) for one in found} == {("receiver", NOW)}


def test_a_flood_of_refused_logins_is_bounded(documents: Documents) -> None:
    """Most networks are counted together, the number of entries that wait is limited, and no login is uncounted."""
    audit = AuditLog(documents)
    logins = RefusedLogins(audit, "receiver", now=lambda: NOW)
    for number in range(10_000):
        logins.count("wrong_key", f"192.0.{number // 256}.{number % 256}")
    logins.store()
    found = [entry for _space, entry in audit.waiting()]
    assert len(found) == MAX_GROUPS + 1
    assert sum(entry.occurrences for entry in found) == 10_000
    for _interval in range(MAX_WAITING_REFUSALS // MAX_GROUPS + 5):
        for number in range(2 * MAX_GROUPS):
            logins.count("wrong_key", f"192.0.2.{number}")
        logins.store()
    logins.close()
    assert len(list(audit.waiting())) == MAX_WAITING_REFUSALS


def test_refused_logins_are_kept_while_the_store_fails(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt stores all of them."""
    logins = RefusedLogins(AuditLog(documents), "query", now=lambda: NOW)
    logins.count("wrong_key", "192.0.2.7")

    def fail(*_arguments: object) -> None:
        raise LakeError("the state store failed")

    with monkeypatch.context() as patched:
        patched.setattr(type(documents), "put", fail)
        logins.store()
    logins.count("wrong_key", "192.0.2.7")
    logins.close()
    [(_space, entry)] = AuditLog(documents).waiting()
    assert entry.occurrences == 2
