"""Dashboards and rules for Neve's own metrics."""
