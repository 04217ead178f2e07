"""OTTL conditions of spans and their events, in the subset that SQL can ask: read, then translated."""
