"""Recording and alerting rules in Prometheus' format: files, templates, alert states, unit tests."""
