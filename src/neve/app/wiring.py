"""The composition root: settings in, parts out."""

from neve.app.settings import Settings
from neve.lake.lake import Lake
from neve.lake.state import State


def build_lake(settings: Settings) -> Lake:
    """The lake that the settings describe."""
    return Lake(settings.lake, settings.catalog, settings.s3, settings.spark)


def build_state(settings: Settings) -> State:
    """The state store that the settings describe; nothing is opened before it is used."""
    return State(settings.state)
