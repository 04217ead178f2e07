"""Commands that query: `query` and `logs`."""
