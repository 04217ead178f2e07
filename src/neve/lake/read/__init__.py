"""Read tables and their metadata: snapshots, manifests, statistics and data files."""
