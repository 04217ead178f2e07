"""Text of LogQL to a syntax tree: tokens, selectors and stages, expressions."""
