"""The words: signals, tables and the keys that commits carry."""
