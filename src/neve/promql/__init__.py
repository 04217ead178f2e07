"""PromQL: parse, check and evaluate expressions on numpy. Series come from a port to the storage."""
