"""Watch: events that announce raw files, as object stores and people send them."""
