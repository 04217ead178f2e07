"""Workload: SQL of any engine parsed into the filters, columns and joins of each table."""
