"""The control API over HTTP: status, jobs, pauses, policies and tables, for operators."""
