"""Estimates of the full data from a weighted sample, with confidence intervals."""
