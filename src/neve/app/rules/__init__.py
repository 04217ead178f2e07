"""Rules wired from the settings: evaluation by the query service, cycles and deliveries, reports."""
