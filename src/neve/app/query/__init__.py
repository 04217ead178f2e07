"""Queries wired from the settings: the query service, and PromQL and LogQL over it."""
