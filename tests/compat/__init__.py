"""Lakes and state stores that earlier releases wrote, and tests that this release opens them."""
