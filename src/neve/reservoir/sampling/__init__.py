"""Sampling algorithms: priority and exact-total sampling in plain Python and on Spark."""
