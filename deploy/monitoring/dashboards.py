"""The dashboards: one overview, and one for each area that an operator looks into."""

from deploy.monitoring.grafana import Dashboard, Panel, Row, graph, stat

RATE = "[$__rate_interval]"


def rate_by(metric: str, *labels: str) -> str:
    """Return the rate of a counter, summed by labels.

    >>> rate_by("neve_query_rows_total", "engine")
    'sum by (engine) (rate(neve_query_rows_total[$__rate_interval]))'
    """
    return f"sum by ({', '.join(labels)}) (rate({metric}{RATE}))"


def quantile(metric: str, share: float, *labels: str) -> str:
    """Return a quantile of a histogram.

    >>> quantile("neve_tail_seconds", 0.95, "selector")
    'histogram_quantile(0.95, sum by (le, selector) (rate(neve_tail_seconds_bucket[$__rate_interval])))'
    """
    return f"histogram_quantile({share}, sum by ({', '.join(('le', *labels))}) (rate({metric}_bucket{RATE})))"


def _counter(title: str, metric: str, label: str, unit: str = "short") -> Panel:
    return graph(title, (rate_by(metric, label), f"{{{{{label}}}}}"), unit=unit)


def _gauge(title: str, metric: str, label: str, unit: str = "short") -> Panel:
    """Return a graph of a gauge; standbys may report an older value, the largest is that of the leader."""
    return graph(title, (f"max by ({label}) ({metric})", f"{{{{{label}}}}}"), unit=unit)


def _duration(title: str, metric: str, *labels: str) -> Panel:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    return graph(
        title,
        (quantile(metric, 0.5, *labels), f"p50 {legend}".strip()),
        (quantile(metric, 0.99, *labels), f"p99 {legend}".strip()),
        unit="s",
    )


OVERVIEW = Dashboard(
    "overview",
    "Neve / Overview",
    "Is the lake healthy, current and affordable? The other dashboards explain each number.",
    (
        Row(
            "Now",
            (
                stat("Longest wait for ingestion", "max(neve_ingest_waiting_seconds)", "s", 300),
                stat("Rollup lag, 1 minute", 'max(neve_rollup_lag_seconds{level="1m"})', "s", 1800),
                stat("Dead jobs", 'sum(max by (task) (neve_work_jobs{state="dead"}))', limit=1),
                stat("Oldest queued job", "max(neve_work_oldest_queued_seconds)", "s", 3600),
                stat("Lowest table health", "min(neve_compact_health)", text="0 to 100; compaction is due below 50"),
                stat("Dollars per day", "sum(rate(neve_store_dollars_total[1d])) * 86400", "currencyUSD"),
            ),
        ),
        Row(
            "Traffic",
            (
                _counter("Received records", "neve_receiver_records_total", "signal", "cps"),
                _counter("Ingested records", "neve_ingest_records_total", "signal", "cps"),
                _counter("Queries", "neve_query_queries_total", "state", "reqps"),
            ),
        ),
        Row(
            "Problems",
            (
                _counter("Rejected requests", "neve_receiver_refusals_total", "reason", "reqps"),
                _counter("Quarantined records", "neve_ingest_rejected_total", "reason", "cps"),
                _counter("Failed storage calls", "neve_store_failures_total", "operation", "reqps"),
                graph(
                    "Restarts",
                    ("sum by (process) (increase(neve_serve_restarts_total[1h]))", "process {{process}}"),
                    ("sum by (part) (increase(neve_serve_part_restarts_total[1h]))", "part {{part}}"),
                    text="in the last hour",
                ),
                graph("Memory", ("process_resident_memory_bytes", "{{instance}} {{process}}"), unit="bytes"),
                graph("CPU", (f"rate(process_cpu_seconds_total{RATE})", "{{instance}} {{process}}"), unit="cores"),
            ),
        ),
    ),
)

INGEST = Dashboard(
    "ingest",
    "Neve / Receiver and ingestion",
    "From the request of a client to the commit in a table.",
    (
        Row(
            "Receiver",
            (
                _counter("Requests", "neve_receiver_requests_total", "status", "reqps"),
                _counter("Bytes as sent", "neve_receiver_received_bytes_total", "signal", "Bps"),
                _duration("Time until bytes are durable", "neve_receiver_durable_seconds"),
                _counter("Rejected requests", "neve_receiver_refusals_total", "reason", "reqps"),
                graph(
                    "Bytes in memory and in the raw zone",
                    ("sum(neve_receiver_inflight_bytes)", "in flight"),
                    ("max(neve_receiver_backlog_bytes)", "wait for ingestion"),
                    ("max(neve_receiver_largest_backlog_bytes)", "of the largest organization"),
                    unit="bytes",
                ),
                _counter("Clients that disconnected early", "neve_receiver_abandoned_total", "transport", "reqps"),
            ),
        ),
        Row(
            "Ingestion",
            (
                _gauge("Age of the oldest segment that waits", "neve_ingest_waiting_seconds", "stream", "s"),
                _gauge("Bytes that wait", "neve_ingest_waiting_bytes", "stream", "bytes"),
                _gauge("Messages behind (Kafka)", "neve_ingest_lag_offsets", "stream"),
                _counter("Records", "neve_ingest_records_total", "signal", "cps"),
                _counter("Batches", "neve_ingest_batches_total", "stream"),
                _counter("Data files", "neve_ingest_data_files_total", "stream"),
                _duration("Duration of a batch", "neve_ingest_batch_seconds", "stream"),
                _duration("Duration of its commits", "neve_ingest_commit_seconds", "stream"),
                _counter("Failures", "neve_ingest_failures_total", "stream"),
            ),
        ),
        Row(
            "Records that were not added",
            (
                _counter("Quarantined, by reason", "neve_ingest_rejected_total", "reason", "cps"),
                _counter("Duplicates", "neve_ingest_duplicates_total", "signal", "cps"),
                graph("Rows in the table quarantine", ("max(neve_quarantine_rows)", "rows")),
            ),
        ),
    ),
)

MAINTENANCE = Dashboard(
    "maintenance",
    "Neve / Jobs and maintenance",
    "Queues, compaction, rollups, expiry, search index and layouts.",
    (
        Row(
            "Jobs",
            (
                _gauge("Due jobs that no worker has claimed", "neve_work_queue_depth", "task"),
                _gauge("Age of the oldest due job", "neve_work_oldest_queued_seconds", "task", "s"),
                graph("Attempts", (rate_by("neve_work_attempts_total", "task", "state"), "{{task}} {{state}}")),
                _duration("Duration of an attempt", "neve_work_job_seconds", "task"),
                _gauge("Dead jobs", 'neve_work_jobs{state="dead"}', "task"),
                _gauge("Unread announcements", "neve_work_announcements_behind", "topic"),
            ),
        ),
        Row(
            "Compaction",
            (
                _gauge("Health of tables", "neve_compact_health", "table"),
                _counter("Files replaced", "neve_compact_files_read_total", "table"),
                _counter("Bytes read", "neve_compact_read_bytes_total", "table", "Bps"),
                graph("Groups", (rate_by("neve_compact_groups_total", "outcome"), "{{outcome}}")),
                _duration("Duration of a rewrite", "neve_compact_group_seconds", "executor"),
                graph(
                    "Dollars in the last day",
                    ("sum by (table) (increase(neve_compact_dollars_total[1d]))", "{{table}}"),
                    unit="currencyUSD",
                ),
            ),
        ),
        Row(
            "Rollups, index and series",
            (
                _gauge("Rollup lag", "neve_rollup_lag_seconds", "level", "s"),
                _counter("Rollup rows", "neve_rollup_rows_total", "level", "cps"),
                _gauge("Files without a search index", "neve_search_files_missing", "table"),
                _gauge("Files whose series were not read", "neve_series_files_missing", "table"),
                _duration("Duration of a rollup", "neve_rollup_seconds", "level"),
                graph("Commit conflicts", (rate_by("neve_rollup_conflicts_total", "level"), "rollup {{level}}")),
            ),
        ),
        Row(
            "Maintenance and autopilot",
            (
                _counter("Bytes freed", "neve_maintain_freed_bytes_total", "step", "Bps"),
                _counter("Failures", "neve_maintain_failures_total", "step"),
                graph(
                    "Time since the last success",
                    ("time() - max by (step) (neve_maintain_last_success_timestamp_seconds)", "{{step}}"),
                    unit="s",
                ),
                graph(
                    "Layouts of the autopilot",
                    ("max(autopilot_recommendations_total)", "attempted"),
                    ("max(autopilot_optimizations_executed)", "merged"),
                    ("max(autopilot_canary_failures)", "canary failed"),
                ),
                graph("Reduction of scanned bytes", ("max(autopilot_scan_reduction_pct)", "mean"), unit="percent"),
            ),
        ),
    ),
)

QUERIES = Dashboard(
    "queries",
    "Neve / Queries and rules",
    "Latency, volume and limits of queries, and the evaluation of alerting rules.",
    (
        Row(
            "Queries",
            (
                _counter("Queries", "neve_query_queries_total", "state", "reqps"),
                _duration("Duration", "neve_query_seconds", "engine"),
                graph(
                    "Places",
                    ("sum(neve_query_running)", "running"),
                    ("sum(neve_query_waiting)", "waiting"),
                    ("sum(neve_query_workers)", "processes"),
                ),
                _counter("Bytes read", "neve_query_read_bytes_total", "engine", "Bps"),
                _counter("Bytes skipped by pruning", "neve_query_pruned_bytes_total", "engine", "Bps"),
                _counter("Rows of results", "neve_query_rows_total", "engine", "cps"),
                graph(
                    "Rejected requests", (rate_by("neve_query_refused_total", "code", "limit"), "{{code}} {{limit}}")
                ),
                _counter("Queries over a limit", "neve_query_limited_total", "limit"),
                _counter("Query processes that ended", "neve_query_workers_ended_total", "why"),
            ),
        ),
        Row(
            "Rules",
            (
                _gauge("Active alerts", "neve_rules_alerts", "state"),
                graph("Lag of the slowest group", ("max(neve_rules_lag_seconds)", "lag"), unit="s"),
                _counter("Evaluations", "neve_rules_evaluations_total", "result"),
                _gauge("Notifications that wait", "neve_rules_pending_notifications", "destination"),
                graph("Notifications", (rate_by("neve_rules_notifications_total", "destination", "result"), "")),
                _duration("Duration of a cycle", "neve_rules_cycle_seconds"),
            ),
        ),
    ),
)

SAMPLING = Dashboard(
    "sampling",
    "Neve / Sampling",
    "Decisions of the tail sampler, its deliveries, and reservoir sampling.",
    (
        Row(
            "Tail sampling",
            (
                _counter("Decided traces", "neve_tail_traces_total", "decision", "cps"),
                _counter("Traces by policy", "neve_tail_policy_traces_total", "policy", "cps"),
                _gauge("Undecided traces", "neve_tail_open_traces", "selector"),
                _counter("Late spans", "neve_tail_late_spans_total", "selector", "cps"),
                _counter("Unavailable destinations", "neve_tail_away_total", "destination"),
                _counter("Failures", "neve_tail_failures_total", "selector"),
                _duration("Duration of a cycle", "neve_tail_seconds", "selector"),
                _gauge("Bytes of undecided traces in memory", "neve_tail_memory_held_bytes", "selector", "bytes"),
                _counter(
                    "Sampled spans lost in memory mode", "neve_tail_memory_lost_spans_total", "destination", "cps"
                ),
            ),
        ),
        Row(
            "Reservoir",
            (
                _counter("Records read", "neve_reservoir_records_total", "signal", "cps"),
                _counter("Records kept", "neve_reservoir_kept_total", "signal", "cps"),
                _counter("Failures", "neve_reservoir_failures_total", "signal"),
            ),
        ),
    ),
)

STORAGE = Dashboard(
    "storage",
    "Neve / Storage and cost",
    "Calls of object storage by Neve's Python code, and estimated dollars by the configured prices.",
    (
        Row(
            "Calls",
            (
                _counter("Calls", "neve_store_calls_total", "operation", "reqps"),
                _counter("Failed calls", "neve_store_failures_total", "operation", "reqps"),
                _duration("Duration", "neve_store_seconds", "operation"),
                _counter("Bytes", "neve_store_bytes_total", "operation", "Bps"),
                graph(
                    "Dollars of calls in the last day",
                    ("sum by (operation) (increase(neve_store_dollars_total[1d]))", "{{operation}}"),
                    unit="currencyUSD",
                ),
                graph(
                    "Dollars of compaction in the last day",
                    ("sum by (table) (increase(neve_compact_dollars_total[1d]))", "{{table}}"),
                    unit="currencyUSD",
                ),
            ),
        ),
        Row(
            "Own telemetry",
            (
                _counter("Sent", "neve_telemetry_sent_total", "signal", "cps"),
                _counter("Dropped", "neve_telemetry_dropped_total", "reason", "cps"),
                _gauge("Queue", "neve_telemetry_queue", "signal"),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, INGEST, MAINTENANCE, QUERIES, SAMPLING, STORAGE)
