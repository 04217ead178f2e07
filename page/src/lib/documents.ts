/** Documents of the API. Written by `make page-types` from OpenAPI: do not edit. */

export interface AnswerDocument {
  id: string;
  columns: ResultColumn[];
  rows: unknown[][];
  statistics?: StatisticsDocument | null;
  error?: ErrorDocument | null;
}

export interface AttemptDetail {
  id: string;
  table: string;
  kind: string;
  stage: string;
  before: string;
  after: string;
  started: string;
  steps: StepLine[];
  outcome: OutcomeReport | null;
  changes: string[];
  table_bytes: number | null;
  promised: ReductionReport | null;
  measured: ReductionReport | null;
  reasons: string[];
  cost_seconds: number | null;
  cost_dollars: number | null;
  payback_days: number | null;
  canary: CanaryQueryReport[];
  rejected: RejectedLayoutReport[];
  branch: string;
  job: JobReport | null;
}

export interface AttemptLine {
  id: string;
  table: string;
  kind: string;
  stage: string;
  before: string;
  after: string;
  started: string;
  steps: StepLine[];
  outcome: OutcomeReport | null;
  changes: string[];
}

export interface AttemptsReport {
  total: number;
  offset: number;
  attempts: AttemptLine[];
}

export interface AttributeDocument {
  kind: "attribute" | "resource";
  name: string;
  records: number;
}

export interface AuditDocument {
  entries: AuditLine[];
}

export interface AuditLine {
  organization_id: string;
  timestamp: string;
  entry_id: string;
  action: string;
  actor: string;
  origin: string;
  subject: string;
  occurrences: number;
  details: Record<string, string>;
}

export interface BarsDocument {
  value: string | null;
  records: number[];
}

export interface Batch {
  count: number;
  bytes: number;
  age_seconds: number;
}

export interface BatchLine {
  received: number;
  stored: number;
  refused: number;
  resends: number;
  difference: number;
  batch: string;
  source: string;
  at: string;
  files: number;
  bytes: number;
  tables: string[];
}

export interface Budget {
  organization: string;
  dollars_per_day: number;
  bytes_per_day: number;
}

export interface CanaryQueryReport {
  fingerprint: string;
  equal: boolean;
  bytes_main: number;
  bytes_branch: number;
  seconds_main: number;
  seconds_branch: number;
  text: string;
}

export interface ColumnDocument {
  name: string;
  type: string;
  comment: string;
  required: boolean;
}

export interface ColumnsDocument {
  id: string | null;
  columns?: ResultColumn[];
  pieces?: unknown[][][];
  statistics?: StatisticsDocument | null;
  error?: ErrorDocument | null;
}

export interface CostLine {
  day: string;
  task: string;
  table: string;
  runs: number;
  seconds: number;
  calls: number | null;
  estimated_dollars: number | null;
  dollars: number;
}

export interface CostReport {
  since: string;
  until: string;
  dollars: number;
  estimated_dollars: number;
  calls: number;
  lines: CostLine[];
  organizations: OrganizationCost[];
  queries: QueryBytes[];
  notes: string[];
}

export interface DecisionBar {
  at: string;
  decision: string;
  policy: string;
  traces: number;
  spans: number;
}

export interface DecisionDocument {
  selector: string;
  revision: number;
  kind: string;
  decision: string;
  policy: string | null;
  reason: string;
  adjusted_count: number | null;
  probability: number | null;
  late_spans: number;
  taken_by: string | null;
  decided_at: string;
  ready_at: string;
  ready_because: string;
  span_count: number;
  duration_ms: number;
  has_error: boolean;
  policies_hash: string;
  cycle: number;
}

export interface DecisionLine {
  trace_id: string;
  decided_at: string;
  decision: string;
  policy: string;
  reason: string;
  kind: string;
  revision: number;
  adjusted_count: number | null;
  probability: number | null;
  spans: number;
  duration_ms: number;
  has_error: boolean;
  service: string;
  operation: string;
}

export interface DecisionPage {
  offset: number;
  decisions: DecisionLine[];
  more: boolean;
}

export interface DecisionVolume {
  traces: number;
  spans: number;
  kept: number;
  kept_spans: number;
  dropped: number;
  errors: number;
  kept_errors: number;
  estimated: number;
  estimated_error: number;
}

export interface DecisionVolumes {
  all: DecisionVolume;
  policies: PolicyDecisions[];
  services: ServiceDecisions[];
  services_left_out: number;
  step_seconds: number;
  bars: DecisionBar[];
  revisions: number;
}

export interface DecisionsDocument {
  trace_id: string;
  decisions: DecisionDocument[];
  open: OpenTraceDocument[];
}

export interface EdgeDocument {
  calls: number;
  errors: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  client: string;
  server: string;
  connection: string;
  estimated_calls: number;
  estimated_errors: number;
}

export interface EdgesDocument {
  spans: number;
  seconds: number;
  share: number;
  source: "spans" | "service_edges";
  edges: EdgeDocument[];
  more_edges: boolean;
}

export interface ErrorDocument {
  code: string;
  message: string;
  hint: string | null;
  limit: string | null;
}

export interface FailureDocument {
  error: ErrorDocument;
  id: string | null;
}

export interface FieldValuesDocument {
  field: string;
  values: ValueDocument[];
  more: boolean;
}

export interface FieldsDocument {
  table: string;
  columns: string[];
  attributes: AttributeDocument[];
  sampled: number;
  more: boolean;
}

export interface FileSizesReport {
  target_bytes: number;
  classes: SizeClassReport[];
}

export interface FreshnessDocument {
  organization: string;
  at: string;
  tables: FreshnessLine[];
}

export interface FreshnessLine {
  table: string;
  rows: number;
  latest: string | null;
}

export interface FreshnessReport {
  table: string;
  last_commit: string | null;
  age_seconds: number | null;
}

export interface FunctionsDocument {
  functions: string[];
}

export interface HealthPartsReport {
  sizes: number;
  equality_deletes: number;
  position_deletes: number;
}

export interface HeldKey {
  organization: string;
  key_id: string;
  active: boolean;
}

export interface HistogramDocument {
  table: string;
  start_unix_seconds: number;
  step_seconds: number;
  bars: number;
  groups: BarsDocument[];
  left_out: number;
}

export interface HistoryDocument {
  runs: PastReport[];
}

export interface IdentityDocument {
  auth: "open" | "keys";
  organization: string;
  key_id: string;
  scopes: string[];
  version: string;
  organizations: HeldKey[];
  may_operate: boolean;
}

export interface JobReport {
  id: string;
  task: string;
  table: string;
  window: string;
  reason: string;
  state: string;
  created: string;
  not_before: string;
  attempts: number;
  owner: string;
  started: string | null;
  ended: string | null;
  progress: ProgressReport;
  again: boolean;
  cancel: boolean;
  outcome: string;
  result: Record<string, unknown>;
  error: string;
  hint: string;
}

export interface JobsDocument {
  jobs: JobReport[];
}

export interface LagsReport {
  zones: ZoneReport[];
  tables: FreshnessReport[];
  rollups: LevelReport[];
  tail: TailReport | null;
  rules: RulesReport | null;
  unknown: string[];
}

export interface LakeTablesDocument {
  tables: TableReport[];
}

export interface LayoutChange {
  table: string;
  reason?: string;
}

export interface LedgerLine {
  received: number;
  stored: number;
  refused: number;
  resends: number;
  difference: number;
}

export interface LedgerPage {
  since: string | null;
  total: number;
  offset: number;
  batches: BatchLine[];
  days: SourceLine[];
  sums: LedgerLine;
}

export interface LevelReport {
  level: string;
  table: string;
  closed_until: string;
  lag_seconds: number | null;
  commits_behind: number | null;
  note: string;
}

export interface LogDocument {
  timestamp: string;
  time_unix_nano: number | string | null;
  observed_time_unix_nano: number | string | null;
  service_name: string | null;
  severity_number: number | null;
  severity_text: string | null;
  span_id: string | null;
  message: string | null;
  record_id: string | null;
}

export interface NearbyDocument {
  record_id: string;
  since: string;
  until: string;
  before: LogDocument[];
  after: LogDocument[];
}

export interface NextReport {
  task: string;
  table: string;
  window: string;
  when: string | null;
  state: string;
  why: string;
  policy: string;
  done: number;
  total: number;
  share: number | null;
}

export interface OpenTraceDocument {
  selector: string;
  span_count: number;
  first_seen: string;
  last_seen: string;
}

export interface OperationDocument {
  calls: number;
  errors: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  service: string;
  operation: string;
  kind: number;
}

export interface OrganizationCost {
  organization: string;
  day: string;
  dollars: number;
  bytes: number;
  dollars_left: number | null;
  bytes_left: number | null;
}

export interface OutcomeReport {
  at: string;
  promised_pct: number;
  promised_low_pct: number;
  delivered_pct: number;
  is_delivered: boolean;
}

export interface OutlookReport {
  at: string;
  source: string;
  lines: NextReport[];
  warnings: string[];
}

export interface OwnCostReport {
  organization: string;
  since: string;
  until: string;
  days: OrganizationCost[];
  queries: QueryBytes;
  notes: string[];
}

export interface PartitionDetail {
  partition: string;
  health: number;
  files: number;
  bytes: number;
  rows: number;
  fragments: number;
  undersized: number;
  delete_files: number;
  parts: HealthPartsReport;
  average_bytes: number;
}

export interface PartitionPage {
  snapshot: string | null;
  target_bytes: number;
  health: number;
  parts: HealthPartsReport;
  total: number;
  offset: number;
  partitions: PartitionDetail[];
}

export interface PartitionReport {
  partition: string;
  health: number;
  files: number;
  bytes: number;
  rows: number;
  fragments: number;
  undersized: number;
  delete_files: number;
}

export interface PartsDocument {
  parts: ServePartReport[];
}

export interface PastReport {
  what: string;
  table: string;
  started: string;
  seconds: number;
  words: string;
  error: string;
  details: Record<string, unknown>;
}

export interface Pause {
  task?: "compact" | "maintain" | "rollup" | "search" | "series" | "traces" | "autopilot" | "simulate" | "layout" | null;
  tables?: string;
  reason?: string;
  until?: string | null;
}

export interface PauseReport {
  id: string;
  task: string | null;
  tables: string;
  by: string;
  reason: string;
  since: string;
  until: string | null;
}

export interface PausesDocument {
  pauses: PauseReport[];
}

export interface PlanLine {
  partition: string;
  files: number;
  bytes: number;
  reason: string;
  health: number | null;
  level: string;
  layout: string;
  executor: string;
  executor_reason: string;
  limit: string;
  seconds: number | null;
  dollars: number | null;
}

export interface PlanPage {
  reason: string;
  strategy: string;
  groups: number;
  left_alone: number;
  cut: number;
  part: string;
  total: number;
  offset: number;
  lines: PlanLine[];
}

export interface PlanReport {
  reason: string;
  strategy: string;
  groups: number;
  files: number;
  bytes: number;
  seconds: number;
  dollars: number;
  cut: number;
  left_alone: number;
  first: PlannedGroup[];
}

export interface PlannedGroup {
  partition: string;
  files: number;
  bytes: number;
  level: string;
  layout: string;
  executor: string;
  reason: string;
}

export interface PoliciesAsked {
  policies: Policy[];
}

export interface PoliciesDocument {
  source: string;
  version: string;
  policies: Record<string, unknown>[];
}

export interface Policy {
  name: string;
  tables: string[];
  tasks: Record<string, Rule>;
  quiet: Quiet[];
  budgets: Budget[];
}

export interface PolicyCheck {
  valid: boolean;
  problems: string[];
  remarks: string[];
  policies: PolicyLine[];
  semantics: string;
}

export interface PolicyDecisions {
  traces: number;
  spans: number;
  kept: number;
  kept_spans: number;
  dropped: number;
  errors: number;
  kept_errors: number;
  estimated: number;
  estimated_error: number;
  policy: string;
}

export interface PolicyFileDocument {
  source: string;
  policies: string;
}

export interface PolicyLine {
  name: string;
  kind: string;
}

export interface PolicyText {
  policies: string;
}

export interface ProgressReport {
  step: string;
  done: number;
  total: number;
}

export interface QueriesDocument {
  queries: QueryDocument[];
}

export interface QueryBytes {
  organization: string;
  bytes: number;
  dollars: number;
}

export interface QueryDocument {
  id: string;
  state: string;
  sql: string;
  key_id: string;
  started: string;
  error: string;
  statistics: StatisticsDocument;
}

export interface QueryUsageReport {
  organization: string;
  bytes: number;
}

export interface Question {
  sql: string;
  parameters?: (string | number | boolean | null)[] | Record<string, string | number | boolean | null>;
  since?: string | null;
  until?: string | null;
  format?: "json" | "jsonl" | "csv" | "parquet" | "arrow" | "columns" | null;
  limit?: number | null;
  timeout_seconds?: number | null;
  partial?: boolean;
  timezone?: string;
  fresh?: boolean;
}

export interface Questions {
  questions: Question[];
}

export interface QueueReport {
  task: string;
  queued: number;
  running: number;
  dead: number;
  oldest_seconds: number | null;
}

export interface Quiet {
  start: string;
  end: string;
  days: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
  zone: string;
  tasks: Task[];
}

export interface ReductionReport {
  pct: number;
  low_pct: number;
  high_pct: number;
}

export interface RefusalBar {
  at: string;
  reason: string;
  records: number;
}

export interface RefusalGroup {
  reason: string;
  source: string;
  signal: string;
  records: number;
  bytes: number;
  first: string;
  last: string;
  example: string;
}

export interface RefusalGroups {
  total: number;
  groups: RefusalGroup[];
  left_out: number;
  step_seconds: number;
  bars: RefusalBar[];
}

export interface RefusedDetail {
  id: string;
  at: string;
  signal: string;
  reason: string;
  detail: string;
  source: string;
  position: number | null;
  encoding: string;
  bytes: number | null;
  batch: string;
  hex: string;
  hex_bytes: number;
  decoded: string | null;
  decoded_note: string;
  retry: string;
  retried: string;
}

export interface RefusedPage {
  offset: number;
  records: RefusedRecord[];
  more: boolean;
}

export interface RefusedRecord {
  id: string;
  at: string;
  signal: string;
  reason: string;
  detail: string;
  source: string;
  position: number | null;
  encoding: string;
  bytes: number | null;
  batch: string;
}

export interface RejectedLayoutReport {
  layout: string;
  reason: string;
}

export interface ResultColumn {
  name: string;
  type: string;
}

export interface ResultsDocument {
  results: ColumnsDocument[];
}

export interface RetryReport {
  id: string;
  records: number;
  words: string;
}

export interface Rule {
  enabled: boolean;
  every: string;
  cron: string;
  zone: string;
  batch: Batch | null;
}

export interface RulesReport {
  groups: number;
  lag_seconds: number;
  failing: number;
  pending: number;
  firing: number;
}

export interface RunLine {
  id: string;
  started: string;
  strategy: string;
  reason: string;
  seconds: number;
  dollars: number;
  estimated_seconds: number | null;
  estimated_dollars: number | null;
  calls: number;
  health_before: number;
  health_after: number;
  files_in: number;
  files_out: number;
  bytes_in: number;
  bytes_out: number;
  rows_before: number | null;
  rows_after: number | null;
  hash_before: string | null;
  hash_after: string | null;
  equal: boolean | null;
  duplicates: number;
  planned: number;
  committed: number;
  conflicts: number;
  failed: number;
  errors: string[];
  snapshots: string[];
}

export interface RunPage {
  total: number;
  offset: number;
  runs: RunLine[];
}

export interface ScanDocument {
  table: string;
  snapshot: number | null;
  files: number;
  bytes: number;
  pruned_files: number;
  pruned_bytes: number;
  predicate: string;
}

export interface ServePartReport {
  instance: string;
  process: string;
  name: string;
  state: string;
  since: string;
  pid: number;
  restarts: number;
  error: string;
  details: Record<string, unknown>;
  seen: string;
}

export interface ServiceDecisions {
  traces: number;
  spans: number;
  kept: number;
  kept_spans: number;
  dropped: number;
  errors: number;
  kept_errors: number;
  estimated: number;
  estimated_error: number;
  service: string;
}

export interface ServiceDocument {
  calls: number;
  errors: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  service: string;
  spans: number;
}

export interface ServicesDocument {
  spans: number;
  seconds: number;
  services: ServiceDocument[];
  operations: OperationDocument[];
  more_services: boolean;
  more_operations: boolean;
}

export interface SignIn {
  key?: string | null;
  key_id?: string | null;
}

export interface SignedOutDocument {
  signed_in: boolean;
}

export interface SimulationBody {
  policies: string;
  since?: string | null;
  until?: string | null;
  price?: number | null;
}

export interface SimulationLine {
  id: string;
  created: string;
  by: string;
  state: string;
  error: string;
}

export interface SimulationReport {
  id: string;
  created: string;
  by: string;
  since: string | null;
  until: string | null;
  price: number | null;
  state: string;
  error: string;
  policies: string;
  job: JobReport | null;
  result: Record<string, unknown> | null;
}

export interface SimulationsDocument {
  simulations: SimulationLine[];
}

export interface SizeClassReport {
  least: number;
  files: number;
  bytes: number;
  rows: number;
}

export interface SnapshotLine {
  id: string;
  at: string;
  operation: string;
  is_compaction: boolean;
  files: number;
  bytes: number;
  rows: number;
  added_files: number;
  removed_files: number;
  added_rows: number;
  removed_rows: number;
}

export interface SnapshotPage {
  total: number;
  offset: number;
  snapshots: SnapshotLine[];
}

export interface SourceLine {
  received: number;
  stored: number;
  refused: number;
  resends: number;
  difference: number;
  day: string;
  source: string;
  batches: number;
  bytes: number;
}

export interface SpanColumns {
  span_id: (string | null)[];
  parent: number[];
  start: (number | string | null)[];
  duration: (number | string | null)[];
  service: number[];
  name: number[];
  kind: number[];
  status: number[];
  events: number[];
  links: number[];
}

export interface SpanDocument {
  span_id: string | null;
  parent_span_id: string | null;
  service_name: string | null;
  operation_name: string | null;
  span_kind: number | null;
  status_code: number | null;
  status_message: string | null;
  duration_ms: number | null;
  start_time_unix_nano: number | string | null;
  end_time_unix_nano: number | string | null;
  trace_state: string | null;
  flags: number | null;
  attributes: Record<string, string | null> | null;
  resource_attributes: Record<string, string | null> | null;
  scope_name: string | null;
  scope_version: string | null;
  events: SpanEvent[] | null;
  event_count: number | null;
  links: SpanLink[] | null;
  link_count: number | null;
  dropped_attributes_count: number | null;
  dropped_events_count: number | null;
  dropped_links_count: number | null;
  record_id: string | null;
  ingested_at: string | null;
}

export interface SpanEvent {
  time_unix_nano: number | string | null;
  name: string | null;
  attributes: Record<string, string | null> | null;
}

export interface SpanLink {
  trace_id: string | null;
  span_id: string | null;
  attributes: Record<string, string | null> | null;
}

export interface SpansDocument {
  trace_id: string;
  span_id: string;
  spans: SpanDocument[];
}

export interface Start {
  task: "compact" | "maintain" | "rollup" | "search" | "series" | "traces" | "autopilot";
  table?: string;
  window?: string;
  reason?: string;
}

export interface StatisticsDocument {
  scans: ScanDocument[];
  engine: string;
  cache: string;
  rollup: string;
  rows: number;
  planning_seconds: number;
  seconds: number;
  partial: boolean;
  truncated: boolean;
  notes: string[];
  files: number;
  bytes: number;
  pruned_files: number;
  pruned_bytes: number;
}

export interface StatusReport {
  at: string;
  parts: ServePartReport[];
  queues: QueueReport[];
  running: JobReport[];
  ended: JobReport[];
  dead: JobReport[];
  pauses: PauseReport[];
  lags: LagsReport;
  query_usage: QueryUsageReport[];
}

export interface StepLine {
  stage: string;
  at: string;
  reason: string;
}

export interface TableDetail {
  name: string;
  rows: number;
  files: number;
  bytes: number;
  snapshots: number;
  health: number | null;
  last_commit: string | null;
  running: string;
  unfinished: string[];
  error: string;
  partitions: PartitionReport[];
  partitions_in_all: number;
  plan: PlanReport;
}

export interface TableDocument {
  name: string;
  comment: string;
  rows: number;
  files: number;
  bytes: number;
  snapshot: number | null;
  earliest: string | null;
  latest: string | null;
  columns: ColumnDocument[];
}

export interface TableReport {
  name: string;
  rows: number;
  files: number;
  bytes: number;
  snapshots: number;
  health: number | null;
  last_commit: string | null;
  running: string;
  unfinished: string[];
  error: string;
}

export interface TablesDocument {
  tables: TableDocument[];
}

export interface TailReport {
  selector: string;
  cycle: number;
  last_cycle: string;
  open_traces: number;
  behind: string;
  decisions: number;
  destinations: string[];
}

export type Task = "compact" | "maintain" | "rollup" | "search" | "series" | "traces" | "autopilot" | "simulate" | "layout";

export interface TraceDecisionReport {
  state: string;
  trace: Record<string, unknown>;
}

export interface TraceDocument {
  trace_id: string;
  start_unix_nano: string;
  duration_nano: number | string;
  span_count: number;
  left_out: number;
  error_count: number;
  services: string[];
  names: string[];
  spans: SpanColumns;
}

export interface TraceLogsDocument {
  trace_id: string;
  since: string | null;
  until: string | null;
  logs: LogDocument[];
  left_out: number;
}

export interface ValueDocument {
  value: string | null;
  records: number;
}

export interface ValuesDocument {
  table: string;
  fields: FieldValuesDocument[];
}

export interface View {
  address: string;
}

export interface ViewDocument {
  name: string;
  address: string;
  key_id: string;
  saved: string;
}

export interface ViewsDocument {
  views: ViewDocument[];
}

export interface ZoneReport {
  zone: string;
  segments: number;
  bytes: number;
  oldest_seconds: number;
}
