"""Keep Arrow from importing pandas in processes that do not need it.

Arrow imports pandas, if it is installed, when it first converts a Python value: 0.3 CPU seconds, a third of a short
command. Neve itself passes no values of pandas to Arrow. Two callers need it, and load it: Spark, and results with
nanoseconds, for which Python has no type.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import pyarrow as pa

PANDAS = "pandas"


class PandasBlocker:
    """Import hook that reports pandas as not installed. Arrow then works without it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise `ModuleNotFoundError` for pandas. Other modules are left to the next hook."""
        del path, target
        if fullname == PANDAS:
            raise ModuleNotFoundError("pandas is not loaded in this process, see load_pandas", name=fullname)
        return None


_BLOCKER = PandasBlocker()
_loading = threading.Lock()


def defer_pandas() -> None:
    """Block pandas until `load_pandas`, for a command that normally needs none. No effect if it is loaded already."""
    if PANDAS not in sys.modules and _BLOCKER not in sys.meta_path:
        sys.meta_path.insert(0, _BLOCKER)


def load_pandas() -> None:
    """Load pandas after all, and tell Arrow about it. No effect if it was not blocked.

    It returns when pandas is loaded, also if another thread loads it. Arrow then accepts and returns values of pandas,
    except for its markers of missing values, `NA` and `NaT`.
    """
    with _loading:
        if _BLOCKER not in sys.meta_path:
            return
        with suppress(ValueError):  # removed by other code in between
            sys.meta_path.remove(_BLOCKER)
        import pyarrow.lib  # noqa: PLC0415 - its import is the caller's choice

        _ = pyarrow.lib._pandas_api.pd  # tries again what the hook made fail


def needs_pandas(schema: pa.Schema) -> bool:
    """Return whether values of a result have nanoseconds, which Arrow converts to values of pandas."""
    return any("[ns" in str(kind) for kind in schema.types)
