"""Lakerunner's test data: OTLP messages, and Parquet in its own schema."""

from collections.abc import Callable
from pathlib import Path

import pytest

from neve.errors import InputError, UnknownFields
from neve.ingest.files.reader import ReadOptions
from neve.model.signals import Signal
from neve.otlp import decode
from tests.outside.files import INTAKE, read


@pytest.mark.parametrize("signal", list(Signal))
def test_otlp_messages_are_read(outside: Callable[[str], Path], signal: Signal) -> None:
    """All of their records."""
    found = read(outside(f"lakerunner/testdata/{signal}/otel-{signal}.binpb.gz"))
    decoded = decode(found.signal, found.messages, INTAKE)
    assert (found.signal, found.rejected, decoded.rejected) == (signal, (), ())
    assert decoded.batch.num_rows > 0


def test_parquet_of_another_schema_is_refused_with_its_names(outside: Callable[[str], Path]) -> None:
    """It has no time and no message under a known name."""
    files = sorted(outside("lakerunner/testdata/logs").glob("*.parquet"))
    assert files
    for file in files:
        try:
            found = read(file, ReadOptions(Signal.LOGS))
        except UnknownFields as error:
            assert "among its fields" in error.message  # noqa: PT017 - files of a known schema may be among them
        except InputError as error:
            pytest.fail(f"{file.name}: {error}")
        else:
            assert found.names is not None
            assert found.names.names["time"] or found.names.names["message"]
