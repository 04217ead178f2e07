"""Commands for keys, the audit log and erasure."""
