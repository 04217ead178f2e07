"""Tests on public data that is not part of the project."""
