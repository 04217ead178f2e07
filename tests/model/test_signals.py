"""The three signals, and where their records land."""

import pytest

from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL


@pytest.mark.parametrize("signal", list(Signal))
def test_every_signal_has_its_table(signal: Signal) -> None:
    """The name that a signal gives for its table is the declared table's."""
    assert BY_SIGNAL[signal].name == signal.table


def test_signals_are_the_words_of_the_standard() -> None:
    """Users write these words in options and paths."""
    assert [str(signal) for signal in Signal] == ["logs", "metrics", "traces"]


def test_records_have_names_of_their_own() -> None:
    """What a summary calls the records of each signal."""
    assert {signal.record for signal in Signal} == {"log records", "metric points", "spans"}
