"""Tail sampling without a lake: spans come from the receiver or Kafka and are buffered in bounded memory."""
