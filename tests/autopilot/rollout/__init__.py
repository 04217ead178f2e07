"""Tests of staging, the canary and the merge."""
