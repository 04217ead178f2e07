"""A staged layout published, or taken back."""
