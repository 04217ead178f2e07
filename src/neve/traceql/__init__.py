"""TraceQL: parser, evaluation over whole traces, and Tempo's HTTP API without a server."""
