"""Commits to tables: idempotent appends, replacements through Iceberg's Java library, metadata changes and branches."""
