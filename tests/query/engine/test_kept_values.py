"""Values that programs keep in a worker."""

from neve.query.engine.program import KeptValues

FIRST, SECOND, LOGS = (("metrics", "1"),), (("metrics", "2"),), (("logs", "1"),)


def test_versions() -> None:
    """A value is found for the same versions of tables alone, also after programs on other tables."""
    kept = KeptValues(100)
    kept.enter("acme", FIRST)
    kept.put("a", 1, 10)
    kept.enter("acme", LOGS)
    assert kept.get("a") is None
    kept.enter("acme", None)
    kept.enter("acme", FIRST)
    assert kept.get("a") == 1
    kept.enter("acme", SECOND)
    assert kept.get("a") is None
    kept.enter("acme", FIRST)
    assert kept.get("a") is None


def test_organizations() -> None:
    """Work for another organization drops all values, be it a program or a statement."""
    for versions in (FIRST, None):
        kept = KeptValues(100)
        kept.enter("acme", FIRST)
        kept.put("a", 1, 10)
        kept.enter("globex", versions)
        assert kept.get("a") is None
        assert not kept._values
        kept.enter("acme", FIRST)
        assert kept.get("a") is None


def test_room() -> None:
    """The least recently used value makes room, and a value of more than half of the room is not kept."""
    kept = KeptValues(100)
    kept.enter("acme", FIRST)
    kept.put("large", 0, 51)
    assert kept.get("large") is None
    for name in ("a", "b"):
        kept.put(name, name, 40)
    assert kept.get("a") == "a"
    kept.put("c", "c", 40)
    assert [kept.get(name) for name in ("a", "b", "c")] == ["a", None, "c"]
