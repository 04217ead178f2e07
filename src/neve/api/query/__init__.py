"""The query API over HTTP, and what it shares with the control API: endpoints, errors, models."""
