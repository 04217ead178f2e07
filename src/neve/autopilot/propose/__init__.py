"""Proposals: a proven layout becomes a change of the table's spec in git, for people to approve."""
