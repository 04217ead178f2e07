"""Traces assembled from their spans: a summary of each trace, and the calls between services by minute."""
