"""Tail sampling: keep or drop whole traces, decided from the lake or in memory."""
