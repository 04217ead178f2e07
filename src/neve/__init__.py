"""Neve: a telemetry lakehouse that tends itself."""

__version__ = "0.1.0"
