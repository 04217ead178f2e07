"""The network servers: OTLP receiver, query and control API, health and metrics."""
