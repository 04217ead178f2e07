"""Maintenance: what keeps a table small and quick to plan: snapshots, orphans, manifests, retention, tags."""
