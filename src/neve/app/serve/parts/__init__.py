"""The parts of the worker process: ingestion streams, the scheduler, workers, tail sampling and the announcer."""

from neve.app.serve.parts.build import build_parts

__all__ = ["build_parts"]
