"""The API of traces, services and their calls."""
