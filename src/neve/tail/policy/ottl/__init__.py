"""OTTL conditions on spans and span events, in the subset that SQL can express: parsed, then translated."""
