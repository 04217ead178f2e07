"""Values of the Helm chart, each with its default and a help line.

`values.yaml`, `values.schema.json` and the page of values are generated from here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Settings = dict[str, Any]
S3_URL = "^s3://[^/]+(/.*)?$"


class Values(BaseModel):
    """Base of all sections: camel case names, unknown keys are rejected."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class ImageValues(Values):
    """Container image, which is also that of Spark's executors."""

    repository: str = Field("neve", description="registry and name")
    tag: str = Field("", description="tag; empty: the chart's appVersion")
    digest: str = Field("", pattern="^(sha256:[0-9a-f]{64})?$", description="digest, which replaces the tag")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="pull policy")
    pull_secrets: list[str] = Field([], description="names of secrets of the registry")


class LakeValues(Values):
    """Location of the tables."""

    warehouse: str = Field("", description="s3:// prefix of the table files; in mode single a folder is possible")
    exchange: str = Field(
        "", description="s3:// prefix through which Spark tasks exchange rows; empty: below warehouse"
    )


class CatalogValues(Values):
    """Iceberg catalog."""

    kind: Literal["sqlite", "postgres", "rest", "glue"] = Field("postgres", description="sqlite only in mode single")
    uri: str = Field("", description="postgresql://host:port/database, or the URL of a REST catalog")
    user: str = Field("", description="user of a PostgreSQL catalog")
    warehouse: str = Field("", description="name of the warehouse in a REST catalog")
    existing_secret: str = Field("", description="secret with any of the keys password, token and credential")


class StateValues(Values):
    """State store: API keys, leases, jobs and policies."""

    url: str = Field("", description="postgresql://host:port/database; empty only in mode single")
    user: str = Field("", description="user of the database")
    existing_secret: str = Field("", description="secret with the key password")


class S3Values(Values):
    """Object storage. Without a secret, the roles of the service accounts apply."""

    endpoint: str = Field("", description="URL of an S3-compatible server; empty: AWS")
    region: str = Field("us-east-1", description="region of the bucket")
    path_style: bool = Field(True, description="path-style addressing, which most S3-compatible servers need")
    existing_secret: str = Field("", description="secret with the keys accessKey and secretKey")


class ReceiverZone(Values):
    """Durable storage of received messages."""

    location: str = Field("", description="s3:// prefix; in mode single a folder is possible")


class ResourceValues(Values):
    """Requests and limits of a container, as in Kubernetes."""

    requests: Settings = Field({}, description="requested resources")
    limits: Settings = Field({}, description="limits; without a limit of CPU, idle cores are used")


def resources(cpu: str, memory: str) -> ResourceValues:
    """Return requests with a limit of memory only."""
    return ResourceValues(requests={"cpu": cpu, "memory": memory}, limits={"memory": memory})


class RoleValues(Values):
    """One role of the lake: a workload with its own size and place."""

    enabled: bool = Field(True, description="whether the role is deployed")
    replicas: int = Field(1, ge=0, le=1000, description="replicas, unless autoscaling is on")
    resources: ResourceValues = Field(ResourceValues(), description="resources of the container")
    extra_env: list[Settings] = Field([], description="further environment variables, as in Kubernetes")
    pod_annotations: dict[str, str] = Field({}, description="annotations of the pods")
    node_selector: dict[str, str] = Field({}, description="labels of nodes")
    tolerations: list[Settings] = Field([], description="tolerations, as in Kubernetes")
    affinity: Settings = Field({}, description="affinity, as in Kubernetes; empty: spread over zones and nodes")


class AutoscalingValues(Values):
    """Horizontal autoscaling by CPU."""

    enabled: bool = Field(True, description="whether the number of replicas follows the load")
    min_replicas: int = Field(2, ge=1, description="minimum number of replicas")
    max_replicas: int = Field(10, ge=1, description="maximum number of replicas")
    cpu_percent: int = Field(70, ge=1, le=100, description="target utilization of the requested CPU")


class ScaledRoleValues(RoleValues):
    """A role whose replicas share the load."""

    autoscaling: AutoscalingValues = Field(AutoscalingValues(), description="horizontal autoscaling")


class AutopilotValues(RoleValues):
    """Nightly optimization of layouts, as a CronJob."""

    schedule: str = Field("0 2 * * *", description="cron expression")
    time_zone: str = Field("Etc/UTC", description="time zone of the schedule")
    deadline_seconds: int = Field(7200, ge=60, description="a run that takes longer is stopped; the next continues")


class PersistenceValues(Values):
    """Volume of mode single."""

    size: str = Field("50Gi", description="size of the volume")
    storage_class: str = Field("", description="storage class; empty: the default of the cluster")


class RolesValues(Values):
    """Roles of mode distributed. Singletons are elected by leases, so that two replicas are a leader and a standby."""

    receiver: ScaledRoleValues = Field(
        ScaledRoleValues(replicas=2, resources=resources("1", "2Gi")), description="OTLP over HTTP and gRPC"
    )
    api: ScaledRoleValues = Field(
        ScaledRoleValues(replicas=2, resources=resources("2", "8Gi")), description="queries, control and the web page"
    )
    ingest: RoleValues = Field(
        RoleValues(replicas=2, resources=resources("2", "6Gi")), description="streams; executors scale it, not replicas"
    )
    tend: RoleValues = Field(
        RoleValues(replicas=2, resources=resources("2", "6Gi")),
        description="scheduler, compaction, rollups, search index, series and traces; each job is claimed once",
    )
    tail: RoleValues = Field(
        RoleValues(enabled=False, replicas=2, resources=resources("1", "4Gi")), description="tail sampling"
    )
    rules: RoleValues = Field(
        RoleValues(enabled=False, replicas=2, resources=resources("1", "4Gi")),
        description="recording and alerting rules",
    )
    sweeper: RoleValues = Field(
        RoleValues(replicas=1, resources=resources("1", "4Gi")), description="maintenance, a StatefulSet of one"
    )
    autopilot: AutopilotValues = Field(
        AutopilotValues(enabled=False, resources=resources("2", "6Gi")), description="nightly optimization of layouts"
    )


class SparkValues(Values):
    """Spark: on Kubernetes, an existing cluster, Spark Connect, or inside each worker."""

    mode: Literal["kubernetes", "cluster", "connect", "local"] = Field(
        "kubernetes",
        description="kubernetes: executors are pods; cluster: spark.master; connect: spark.connect; local: in the pod",
    )
    master: str = Field("", description="master of an existing cluster, such as spark://host:7077, if mode is cluster")
    connect: str = Field(
        "", pattern="^(sc://.+)?$", description="sc:// URL of a Spark Connect server, if mode is connect"
    )
    driver_memory: str = Field("2g", pattern=r"^\d+[mg]$", description="memory of the driver's JVM")
    executors: int = Field(2, ge=1, description="executors of each driver, if mode is kubernetes")
    executor_cores: int = Field(2, ge=1, description="cores of an executor")
    executor_memory: str = Field("1g", pattern=r"^\d+[mg]$", description="memory of an executor's JVM")
    executor_overhead: str = Field(
        "4g", pattern=r"^\d+[mg]$", description="memory of Arrow in an executor, 2 GB a core"
    )
    conf: dict[str, str] = Field({}, description="further Spark configuration")


class AccountValues(Values):
    """Service account of a group of pods."""

    annotations: dict[str, str] = Field({}, description="annotations, such as the role of IRSA or workload identity")


class AccountsValues(Values):
    """Service accounts: drivers (all roles of Neve) and executors."""

    driver: AccountValues = Field(AccountValues(), description="account of all roles")
    executor: AccountValues = Field(AccountValues(), description="account of Spark's executors, without rights")


class NetworkPolicyValues(Values):
    """Network policies: everything is denied except what is listed here."""

    enabled: bool = Field(True, description="whether policies are created")
    clients: list[Settings] = Field([], description="peers that may send telemetry and queries; empty: all")
    monitoring: list[Settings] = Field(
        [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        description="peers that may read metrics",
    )
    egress_ports: list[int] = Field(
        [443, 5432], description="TCP ports of storage, catalog, databases and destinations outside of the release"
    )
    egress: list[Settings] = Field([], description="further egress rules, as in Kubernetes")
    api_server_ports: list[int] = Field([443, 6443], description="ports of the API server, for drivers of Spark")


class IngressValues(Values):
    """Ingress of the API and the web page. TLS ends there."""

    enabled: bool = Field(False, description="whether an Ingress is created")
    class_name: str = Field("", description="class of the controller")
    host: str = Field("", description="host name; sets query.origin")
    tls_secret: str = Field("", description="secret with the certificate")
    annotations: dict[str, str] = Field({}, description="annotations")


class TlsValues(Values):
    """TLS on the ports of the receiver (OTLP/HTTP, OTLP/gRPC) and the API. The port for health checks has none."""

    existing_secret: str = Field(
        "", description="secret of type kubernetes.io/tls with the keys tls.crt and tls.key; read again when it changes"
    )
    client_ca: bool = Field(
        False, description="require client certificates of the authorities in the secret's key ca.crt, for OTLP"
    )
    server_name: str = Field("", description="name in the certificate, which Prometheus verifies with the key ca.crt")


class MonitoringValues(Values):
    """Objects for the Prometheus operator and Grafana's sidecar."""

    service_monitor: bool = Field(False, description="create a ServiceMonitor")
    key_secret: str = Field("", description="secret with the key `key`: an API key with the scope metrics")
    prometheus_rule: bool = Field(False, description="create a PrometheusRule with the alerts")
    runbook_url: str = Field("", description="prefix of runbook pages; sets the annotation runbook_url")
    dashboards: bool = Field(False, description="create a ConfigMap with the dashboards, labelled grafana_dashboard")
    labels: dict[str, str] = Field({}, description="labels of ServiceMonitor and PrometheusRule")


class ChartValues(Values):
    """Values of one release, which is one lake."""

    mode: Literal["distributed", "single"] = Field(
        "distributed", description="distributed: a workload for each role; single: one pod with a volume"
    )
    name_override: str = Field("", description="name of the objects; empty: that of the release")
    image: ImageValues = Field(ImageValues(), description="container image")
    organization: str = Field("default", pattern="^[A-Za-z0-9._-]{1,64}$", description="organization of commands")
    lake: LakeValues = Field(LakeValues(), description="location of the tables")
    catalog: CatalogValues = Field(CatalogValues(), description="Iceberg catalog")
    state: StateValues = Field(StateValues(), description="state store")
    s3: S3Values = Field(S3Values(), description="object storage")
    raw: ReceiverZone = Field(ReceiverZone(), description="raw zone")
    config: Settings = Field({}, description="further settings of neve.yaml, which override those of the chart")
    extra_env: list[Settings] = Field([], description="environment variables of all roles, as in Kubernetes")
    roles: RolesValues = Field(RolesValues(), description="roles of mode distributed")
    single: RoleValues = Field(RoleValues(resources=resources("2", "8Gi")), description="the pod of mode single")
    persistence: PersistenceValues = Field(PersistenceValues(), description="volume of mode single")
    spark: SparkValues = Field(SparkValues(), description="Spark")
    service_accounts: AccountsValues = Field(AccountsValues(), description="service accounts")
    drain_seconds: int = Field(30, ge=1, le=3600, description="seconds to finish work when a pod is stopped")
    temporary_size: str = Field("20Gi", description="limit of the temporary files of a pod")
    network_policy: NetworkPolicyValues = Field(NetworkPolicyValues(), description="network policies")
    ingress: IngressValues = Field(IngressValues(), description="Ingress")
    tls: TlsValues = Field(TlsValues(), description="TLS on the ports of the receiver and the API")
    monitoring: MonitoringValues = Field(MonitoringValues(), description="monitoring")
