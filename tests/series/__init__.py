"""Tests of the tables of series."""
