"""Simulation: evaluate policies on past traces without writing a decision."""
