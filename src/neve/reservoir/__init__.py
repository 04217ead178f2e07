"""Weighted reservoir sampling: k representatives of each group and window, each with its adjusted count."""
