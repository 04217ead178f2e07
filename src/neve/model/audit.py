"""Table of the audit log: changes of keys, policies, jobs and layouts, erasures, and refused logins."""

import pyarrow as pa

from neve.model.columns import STRING_MAP, TIMESTAMP, Column, Table

AUDIT = Table(
    name="audit",
    comment="audit log: who changed keys, policies, pauses, jobs and layouts, erased records, or was refused; "
    "written by `neve serve`",
    columns=(
        Column("organization_id", pa.string(), "tenant that the entry concerns; * for the whole lake", required=True),
        Column("timestamp", TIMESTAMP, "when it happened; of refused logins, the last one", required=True),
        Column("entry_id", pa.string(), "id of the entry, in the order of time", required=True),
        Column("action", pa.string(), "action, such as key.create, job.start or login.refuse", required=True),
        Column("actor", pa.string(), "key, user or service that acted; empty if it is unknown"),
        Column("origin", pa.string(), "network address of the client, or host of the command"),
        Column("subject", pa.string(), "id or name of the changed thing"),
        Column("occurrences", pa.int64(), "number of equal events; more than 1 for refused logins", required=True),
        Column("details", STRING_MAP, "further facts, such as the reason"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "month")),
    sort=("timestamp",),
    bounded=("organization_id", "timestamp", "entry_id", "action", "actor"),
)
