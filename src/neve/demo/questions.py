"""Questions of the demo as SQL.

The story of the incident, and the tail sampling policies with the query that checks their outcome.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question, and the SQL that answers it."""

    words: str
    sql: str


REQUESTS = Question(
    "How many requests did each service answer, whether it sends totals or differences?",
    """
SELECT service_name, sum(increase)::BIGINT AS requests, round(max(rate), 1) AS busiest_instance_per_s
FROM metrics_5m WHERE metric_name = 'shop.requests' GROUP BY service_name ORDER BY requests DESC LIMIT 5
""",
)
WORST = Question(
    "Which service slowed down and failed?",
    """
WITH minutes AS (
  SELECT service_name, date_trunc('minute', timestamp) AS minute,
         avg((status_code = 2)::INT) AS error_rate, quantile_cont(duration_ms, 0.95) AS p95_ms
  FROM spans WHERE span_kind = 2 GROUP BY ALL)
SELECT service_name, strftime(arg_max(minute, p95_ms), '%H:%M') AS worst_minute,
       round(max(p95_ms) / median(p95_ms), 1) AS times_slower,
       round(100 * max(error_rate), 1) AS worst_error_pct, round(100 * median(error_rate), 2) AS usual_error_pct
FROM minutes GROUP BY service_name ORDER BY worst_error_pct DESC LIMIT 5
""",
)
WHEN = Question(
    "When did it begin and end?",
    """
WITH minutes AS (
  SELECT date_trunc('minute', timestamp) AS minute, count(*) AS requests, count(*) FILTER (status_code = 2) AS failed,
         quantile_cont(duration_ms, 0.5) AS p50_ms
  FROM spans WHERE service_name = 'payment' AND span_kind = 2 GROUP BY minute)
SELECT strftime(min(minute), '%H:%M') AS began, strftime(max(minute) + INTERVAL 1 MINUTE, '%H:%M') AS ended,
       sum(requests)::INT AS requests, sum(failed)::INT AS failed, round(avg(p50_ms)) AS median_ms
FROM minutes WHERE p50_ms > 5 * (SELECT median(p50_ms) FROM minutes)
""",
)
WHO = Question(
    "Which callers and visitors were affected?",
    """
WITH bad_minutes AS (
  SELECT minute FROM (
    SELECT date_trunc('minute', timestamp) AS minute, quantile_cont(duration_ms, 0.5) AS p50_ms
    FROM spans WHERE service_name = 'payment' AND span_kind = 2 GROUP BY minute)
  QUALIFY p50_ms > 5 * median(p50_ms) OVER ())
SELECT caller.service_name AS caller, root.operation_name AS visitor_did, count(DISTINCT root.trace_id) AS visits,
       count(DISTINCT root.trace_id) FILTER (root.status_code = 2) AS failed_visits,
       count(*) FILTER (caller.attributes['app.retry.attempt'] IS NOT NULL) AS retries,
       count(*) FILTER (caller.attributes['rpc.grpc.status_code'] = '4') AS timeouts
FROM spans AS caller JOIN spans AS root ON root.trace_id = caller.trace_id AND root.parent_span_id IS NULL
WHERE caller.span_kind = 3 AND caller.attributes['peer.service'] = 'payment'
  AND date_trunc('minute', root.timestamp) IN (SELECT minute FROM bad_minutes)
GROUP BY ALL ORDER BY failed_visits DESC
""",
)
WHY = Question(
    "Why? The gauge of the connection pool and the logs, by minute",
    """
WITH pool AS (
  SELECT date_trunc('minute', timestamp) AS minute, max(value)::INT AS connections_used FROM metrics
  WHERE metric_name = 'db.client.connection.count' AND service_name = 'payment' AND attributes['state'] = 'used'
  GROUP BY minute),
log_counts AS (
  SELECT date_trunc('minute', timestamp) AS minute, count(*) FILTER (severity_number >= 17) AS errors,
         count(*) FILTER (message LIKE 'Connection leak%') AS leak_warnings,
         coalesce(any_value(message) FILTER (message LIKE 'starting payment%'),
                  any_value(message) FILTER (message LIKE '%pool exhausted%')) AS says
  FROM logs WHERE service_name = 'payment' GROUP BY minute)
SELECT strftime(minute, '%H:%M') AS minute, connections_used, errors, leak_warnings, says
FROM pool JOIN log_counts USING (minute) WHERE errors > 2 OR leak_warnings > 0 OR says IS NOT NULL ORDER BY 1
""",
)
TRACE = Question(
    "Which steps did the slowest failed checkout take? One complete trace",
    """
WITH RECURSIVE failed AS (
  SELECT trace_id FROM spans WHERE operation_name = 'POST /checkout' AND status_code = 2 AND parent_span_id IS NULL
  ORDER BY duration_ms DESC LIMIT 1),
trace AS (SELECT spans.* FROM spans JOIN failed USING (trace_id)),
tree AS (
  SELECT span_id, 0 AS depth, [(timestamp, span_id)] AS path, * EXCLUDE (span_id)
  FROM trace WHERE parent_span_id IS NULL
  UNION ALL
  SELECT t.span_id, depth + 1, list_append(path, (t.timestamp, t.span_id)), t.* EXCLUDE (span_id)
  FROM trace AS t JOIN tree ON t.parent_span_id = tree.span_id)
SELECT repeat('  ', depth) || service_name || ': ' || operation_name AS what,
       date_diff('millisecond', min(timestamp) OVER (), timestamp) AS at_ms, round(duration_ms, 1) AS ms,
       CASE status_code WHEN 2 THEN 'ERROR' ELSE '' END AS status, attributes['app.retry.attempt'] AS attempt
FROM tree WHERE duration_ms > 20 OR status_code = 2 ORDER BY path
""",
)
QUESTIONS = (WORST, WHEN, WHO, WHY, TRACE)


POLICIES = """\
# created by `neve demo`; the tail_sampling processor of a collector accepts the same policies
tail_sampling:
  policies:
    - name: errors
      type: status_code
      status_code: {status_codes: [ERROR]}
    - name: slow-payment
      type: ottl_condition
      ottl_condition:
        span:
          - >-
            resource.attributes["service.name"] == "payment" and kind == SPAN_KIND_SERVER
            and end_time_unix_nano - start_time_unix_nano > 100000000
    - name: rest
      type: probabilistic
      probabilistic: {sampling_percentage: 1}
"""
TAIL = {
    "clock": "event",  # the hour is in the past: the ingestion time of its files is unrelated
    "inactivity_seconds": 60,
    "export": {"destinations": [{"name": "kept", "kind": "iceberg"}]},
}
INCIDENT = Question(
    "Were the traces of the incident kept, and do the kept ones give correct estimates?",
    """
WITH requests AS (
  SELECT date_trunc('minute', timestamp) AS minute, trace_id, duration_ms
  FROM spans WHERE service_name = 'payment' AND span_kind = 2),
bad_minutes AS (
  SELECT minute FROM (SELECT minute, quantile_cont(duration_ms, 0.5) AS p50_ms FROM requests GROUP BY minute)
  QUALIFY p50_ms > 5 * median(p50_ms) OVER ()),
affected AS (SELECT DISTINCT trace_id FROM requests SEMI JOIN bad_minutes USING (minute))
SELECT (SELECT count(*) FROM affected) AS incident_traces,
       (SELECT count(*) FROM affected SEMI JOIN sampled_spans USING (trace_id)) AS kept,
       round(100 * (SELECT count(*) FROM sampled_spans) / (SELECT count(*) FROM spans), 1) AS pct_of_spans_kept,
       (SELECT count(DISTINCT trace_id) FROM spans) AS traces,
       round(sum(adjusted_count))::BIGINT AS estimated_from_the_kept
FROM trace_decisions WHERE decision = 'sampled'
""",
)
