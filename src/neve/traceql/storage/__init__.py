"""Spans of the lake for TraceQL, by SQL that an injected function runs."""
