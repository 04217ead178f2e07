"""Entry point of `python -m neve`."""

from neve.cli.main import run

run()
