"""Maintenance of tables: snapshot expiry, orphans, manifests, deletes, retention, statistics and tags."""
