"""Proposals: a layout that was proven becomes a change of the table's spec in git, which people approve."""
