"""Backup and restore of the catalog and the state store. Data files stay where they are."""
