"""Raw zone: received requests as they arrived, durable before they are acknowledged.

A zone holds writers, a writer holds numbered segments, a segment holds frames. A segment is written by one writer,
sealed once and never changed again, so (writer, number) is a position in the zone as (partition, offset) is in
Kafka.
"""
