"""Tail sampling without a lake: spans straight from the receiver or Kafka, held in memory within a bound."""
