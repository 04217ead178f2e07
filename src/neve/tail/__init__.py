"""Tail sampling: whole traces are kept or not, decided from the lake."""
