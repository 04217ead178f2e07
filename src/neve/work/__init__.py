"""Work: what tends the lake is announced, gathered, scheduled, handed out, tried again, and never forgotten."""
