"""What the command line repeats, so that `--help` need not import it, is what the rooms say."""

from neve.cli import ingest
from neve.cli.querying import query
from neve.ingest.files.formats import Format
from neve.model.signals import Signal
from neve.query import output


def test_the_choices_of_options_are_those_of_the_rooms() -> None:
    """A new format or signal can't be forgotten at the door."""
    assert tuple(Format) == ingest.FORMATS
    assert tuple(Signal) == ingest.SIGNALS
    assert output.FORMATS == query.FORMATS
