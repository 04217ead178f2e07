"""Import pyiceberg with less work, for processes that run one short command.

Half of its import is spent on 120 pydantic models, of which a command uses ten, and on a parser for its configuration
file, which most users do not have. Servers build everything at their start, before the first request waits for it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

CONFIGURATION_PARSER = "strictyaml"
DISABLE_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def defer_models() -> None:
    """Build pydantic models of pyiceberg and of settings at their first use. Imported models stay as they are.

    Plugins of pydantic are not loaded: the search for them reads the metadata of every installed package.
    """
    os.environ.setdefault(DISABLE_PLUGINS, "__all__")
    sys.modules.setdefault(CONFIGURATION_PARSER, DeferredModule(CONFIGURATION_PARSER))
    from pyiceberg.typedef import IcebergBaseModel, IcebergRootModel  # noqa: PLC0415 - its import is the caller's choice

    from neve.model.settings import Section  # noqa: PLC0415 - as above

    for model in (IcebergBaseModel, IcebergRootModel, Section):
        model.model_config["defer_build"] = True  # subclasses inherit it


class DeferredModule(ModuleType):
    """A module that is imported when its first attribute is used. `LazyLoader` imports it at the second `import`."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system looks for these
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
