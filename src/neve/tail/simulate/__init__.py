"""What if: policies asked about traces of the past, without a decision being written."""
