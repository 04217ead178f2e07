"""Run the command `neve` in this process, as a shell would see it: exit code, output, errors."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from neve.cli.main import main
from tests.own_logs import own_logs


class _Kept(io.BytesIO):
    """Bytes that outlive their file."""

    def close(self) -> None:
        """Keep them."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    data: bytes
    errors: str

    @property
    def text(self) -> str:
        """What it printed."""
        return self.data.decode()

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.data)


def run(*arguments: str, stdin: str = "") -> Ran:
    """Run `neve` with these arguments."""
    data, errors = _Kept(), _Kept()
    out, err = io.TextIOWrapper(data, encoding="utf-8"), io.TextIOWrapper(errors, encoding="utf-8")
    code: Any = 0
    given = patch.object(sys, "stdin", io.StringIO(stdin))
    arguments_given = patch.object(sys, "argv", ["neve", *arguments])
    with own_logs(), arguments_given, given, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    for stream in (out, err):
        if not stream.closed:
            stream.flush()
    return Ran(int(code or 0), data.getvalue(), errors.getvalue().decode())
