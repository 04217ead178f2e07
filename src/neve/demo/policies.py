"""The demo's tail sampling: policies as a collector has them, and what is asked of their outcome."""

from neve.demo.questions import Question

POLICIES = """\
# made by `neve demo`: a collector's tail_sampling would run these as they are
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
    "clock": "event",  # the hour is over: when its files were taken in says nothing
    "inactivity_seconds": 60,
    "export": {"destinations": [{"name": "kept", "kind": "iceberg"}]},
}
INCIDENT = Question(
    "Were the incident's traces kept, and do the kept ones still tell the truth?",
    """
WITH requests AS (
  SELECT date_trunc('minute', timestamp) AS minute, trace_id, duration_ms
  FROM spans WHERE service_name = 'payment' AND span_kind = 2),
bad_minutes AS (
  SELECT minute FROM (SELECT minute, quantile_cont(duration_ms, 0.5) AS p50_ms FROM requests GROUP BY minute)
  QUALIFY p50_ms > 5 * median(p50_ms) OVER ()),
ill AS (SELECT DISTINCT trace_id FROM requests SEMI JOIN bad_minutes USING (minute))
SELECT (SELECT count(*) FROM ill) AS incident_traces,
       (SELECT count(*) FROM ill SEMI JOIN sampled_spans USING (trace_id)) AS kept,
       round(100 * (SELECT count(*) FROM sampled_spans) / (SELECT count(*) FROM spans), 1) AS pct_of_spans_kept,
       (SELECT count(DISTINCT trace_id) FROM spans) AS traces,
       round(sum(adjusted_count))::BIGINT AS estimated_from_the_kept
FROM trace_decisions WHERE decision = 'sampled'
""",
)
