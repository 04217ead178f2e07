"""Evaluation of TraceQL over the spans of whole traces, by columns."""
