"""Predicates: from the conditions of a SQL statement to the files that may have matching rows."""
