"""Tests of the demo's telemetry."""
