"""Which parts run, and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from neve.app.serve.config import PARTS, ServeConfig, assign_processes
from neve.app.settings import load_settings
from neve.errors import ConfigError


@given(st.sets(st.sampled_from(PARTS), min_size=1))
def test_each_part_has_one_process(names: set[str]) -> None:
    """Every chosen part is in one process, the doors alone, the others together, none that was not chosen."""
    processes = assign_processes(names)
    assert sorted(part for parts in processes.values() for part in parts) == sorted(names)
    assert set(processes) <= {"receiver", "api", "tend"}
    assert all(parts == (process,) for process, parts in processes.items() if process != "tend")
    assert not {"receiver", "api"}.intersection(processes.get("tend", ()))


def test_all_parts_are_three_processes() -> None:
    """With no choice made, everything runs."""
    assert [*assign_processes(ServeConfig().only)] == ["receiver", "api", "tend"]


@pytest.mark.parametrize(("names", "words"), [(["receiver", "cook"], "are cook, expected"), ([], "are none, expected")])
def test_unknown_parts_are_refused(names: list[str], words: str) -> None:
    """With the list of those that there are."""
    with pytest.raises(ConfigError, match=words) as refused:
        assign_processes(names)
    assert ", ".join(PARTS) in str(refused.value)


def test_the_settings_refuse_them_too() -> None:
    """By the key that was written."""
    with pytest.raises(ValidationError):
        ServeConfig.model_validate({"only": ["cook"]})
    with pytest.raises(ConfigError, match="NEVE_SERVE__ONLY"):
        load_settings(environment={"NEVE_SERVE__ONLY": "[cook]"})
    assert load_settings(environment={"NEVE_SERVE__ONLY": "[api, tail]"}).serve.only == ("api", "tail")
