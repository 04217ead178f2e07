"""Redaction of OTLP messages by rules, before their bytes are stored."""
