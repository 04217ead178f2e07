"""Continuous evaluation of rules: cycles, their rows and state in the lake, programs of query workers, late data."""
