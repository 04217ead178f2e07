"""Rules and alerts over HTTP: Prometheus' `rules` and `alerts`, and Alertmanager's API with silences."""
