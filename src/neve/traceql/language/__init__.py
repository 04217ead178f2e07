"""TraceQL's text: tokens, syntax tree, parser and checks of types."""
