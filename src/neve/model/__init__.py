"""Data model: signals, tables, snapshot summary keys and the base of the settings."""
