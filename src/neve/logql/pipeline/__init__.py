"""Stages of a log pipeline on batches of lines: filters, parsers, formats."""
