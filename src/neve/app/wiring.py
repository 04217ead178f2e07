"""The composition root: settings in, parts out."""

from neve.app.settings import Settings
from neve.lake.lake import Lake


def build_lake(settings: Settings) -> Lake:
    """The lake that the settings describe."""
    return Lake(settings.lake, settings.catalog, settings.s3, settings.spark)
