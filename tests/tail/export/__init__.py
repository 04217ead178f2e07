"""Tests of what kept traces are sent to."""
