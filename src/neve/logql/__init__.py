"""LogQL as Loki 3 has it: parse, run pipelines over log lines, aggregate. ADR 43."""
