"""Autopilot: propose table layouts from query logs, prove them on a branch, then merge them."""
