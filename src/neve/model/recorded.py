"""Table of the results of rules: recorded samples, the series of alerts, and the state of every alert."""

import pyarrow as pa

from neve.model.columns import STRING_MAP, TIMESTAMP, Column, Table

RECORDED_TABLE = "recorded"

RECORDED = Table(
    name=RECORDED_TABLE,
    comment="results of recording and alerting rules, with the state of alerts; written by `neve rules run`",
    columns=(
        Column("organization_id", pa.string(), "tenant that the rule belongs to", required=True),
        Column("timestamp", TIMESTAMP, "time of the sample", required=True),
        Column(
            "metric_name",
            pa.string(),
            "name of the series: that of a recording rule, ALERTS or ALERTS_FOR_STATE; null in rows without a sample, "
            "which have the state of a group or of an alert",
        ),
        Column("value", pa.float64(), "value of the sample; null where the series ends"),
        Column("labels", STRING_MAP, "labels of the series without its name; of a row without a sample, of the alert"),
        Column("rule_group", pa.string(), "name of the group", required=True),
        Column("rule_name", pa.string(), "name of the recording rule or of the alert; null in the row of a group"),
        Column("rule_file", pa.string(), "file of the group, as it is configured", required=True),
        Column("rule_id", pa.string(), "hash of the rule's name and labels; null in the row of a group"),
        Column("evaluated_at", TIMESTAMP, "time of the evaluation", required=True),
        Column("cycle", pa.int64(), "number of the commit among those of the rules", required=True),
        Column("alert_state", pa.string(), "in the row of an alert: pending, firing or inactive (resolved)"),
        Column("alert_value", pa.float64(), "value of the alert's expression"),
        Column("active_at", TIMESTAMP, "time since when the expression of the alert has a sample"),
        Column("fired_at", TIMESTAMP, "time when the alert fired; null if it is pending"),
        Column("resolved_at", TIMESTAMP, "time when the alert was resolved; null if it is active"),
        Column("last_sent_at", TIMESTAMP, "evaluation that last sent the alert; null if none did"),
        Column("keep_firing_since", TIMESTAMP, "time since when the alert fires by keep_firing_for alone"),
        Column("annotations", STRING_MAP, "annotations of the alert"),
        Column("notification", pa.string(), "firing, resolved or repeated if the evaluation sent the alert; else null"),
        Column("failures", STRING_MAP, "in the row of a group: rules whose evaluation failed, with their errors"),
        Column("source_snapshot_id", pa.int64(), "in the row of a group: snapshot of metrics that the rules read"),
        Column(
            "state_times", STRING_MAP, "in the row of a group: evaluation that has the state of each rule_id, in ms"
        ),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("metric_name", "timestamp"),
    bounded=("organization_id", "timestamp", "metric_name", "rule_group", "evaluated_at", "cycle", "value"),
)
