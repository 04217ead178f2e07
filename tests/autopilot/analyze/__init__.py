"""Tests of the analysis of query logs."""
