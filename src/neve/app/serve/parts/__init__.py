"""The parts of the process that tends the lake."""

from neve.app.serve.parts.build import build_parts

__all__ = ["build_parts"]
