"""The raw zone: what was received, as it was received, durable before anyone is told that it was.

A zone holds writers, a writer holds numbered segments, a segment holds frames. A segment is written by one writer, is
sealed once and never changes again, so that (writer, number) is a position in the zone as (partition, offset) is one in
Kafka.
"""
