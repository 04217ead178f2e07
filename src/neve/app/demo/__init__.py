"""The demo: its steps, its layout attempt, and its service with a shop that sends live."""
