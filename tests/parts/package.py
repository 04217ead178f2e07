"""Files inside installed Python packages, found without importing the package."""

from importlib.util import find_spec
from pathlib import Path


def folder(package: str) -> Path | None:
    """Return where a package is installed, or None when it is not."""
    spec = find_spec(package)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


def file(package: str, pattern: str) -> Path | None:
    """Return the last file of a package, by name, that matches a pattern."""
    home = folder(package)
    return max(home.glob(pattern), default=None) if home else None
