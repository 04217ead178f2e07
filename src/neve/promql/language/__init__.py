"""The language: tokens, grammar, syntax tree, type checks, printing."""
