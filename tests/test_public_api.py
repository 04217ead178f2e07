"""The names that `neve` exports: the documented ones, imported lazily."""

import subprocess
import sys
from importlib import import_module

import pytest

import neve
from neve import _MODULES
from tests.cli.test_start import HEAVY
from tests.docs.python_page import documented_names

IMPORT = f"""
import sys
import neve
print([name for name in {HEAVY!r} if name in sys.modules])
print([name for name in sys.modules if name.startswith("neve.")])
"""


def test_the_exported_names_are_the_documented_ones() -> None:
    """`__all__`, the table of modules and docs/python.md have the same names."""
    assert list(neve.__all__) == sorted(neve.__all__)
    assert set(neve.__all__) == set(_MODULES) == set(documented_names())


@pytest.mark.parametrize("name", neve.__all__)
def test_every_name_is_defined_in_its_module(name: str) -> None:
    """The export is the object itself, under its own name, and not an alias of another."""
    exported = getattr(neve, name)
    assert exported is getattr(import_module(_MODULES[name]), name)
    assert (exported.__module__, exported.__name__) == (_MODULES[name], name)


def test_importing_neve_loads_nothing_else() -> None:
    """Neither an engine nor a module of the package is imported before a name is used."""
    ended = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "[]"]


def test_names_are_listed_before_they_are_imported() -> None:
    """Completion in an editor or a shell offers every public name, and the version."""
    assert {*neve.__all__, "__version__"} <= set(dir(neve))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """`hasattr` and `from neve import` work as in any other module."""
    with pytest.raises(AttributeError, match="module 'neve' has no attribute 'Lakes'"):
        getattr(neve, "Lakes")  # noqa: B009 - a type checker knows that it is not there
