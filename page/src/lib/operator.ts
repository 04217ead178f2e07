/** Documents of the API for operators and tenants, by the names that screens use, and helpers for them. */

import type { SimulationReport, Task } from "./documents.ts";

export type {
  AttemptDetail,
  AttemptLine as Attempt,
  CostReport as Costs,
  DecisionPage,
  DecisionVolume as Volume,
  DecisionVolumes as Volumes,
  FileSizesReport as FileSizes,
  JobReport as Job,
  LedgerLine,
  LedgerPage as Ledger,
  NextReport as NextLine,
  OutlookReport as Outlook,
  OwnCostReport as OwnCosts,
  PartitionDetail as Partition,
  PartitionPage,
  PauseReport as Pause,
  PlanPage,
  PolicyCheck,
  RefusalGroups,
  RefusedDetail,
  RefusedPage,
  RunPage,
  SimulationLine,
  SnapshotLine,
  SnapshotPage,
  TableReport as LakeTable,
} from "./documents.ts";

interface Amount {
  traces: number;
  spans: number;
  bytes: number;
  cost: number;
}

export interface Estimate {
  truth: number;
  estimated: number | null;
  error: number | null;
}

export interface Simulated {
  before: Amount;
  kept: Amount;
  price: number;
  open: number;
  seconds: number;
  files: number;
  policies: { name: string; kind: string; decision: string; traces: number; spans: number }[];
  errors: {
    traces: number;
    missed: number;
    missed_dropped: number;
    groups: { organization: string; service: string; operation: string; traces: number; examples: string[] }[];
  };
  estimates: { traces: Estimate; error_rate: Estimate; latency_ms: Record<string, Estimate>; mean_error: number | null };
  remarks: string[];
}

interface Totals {
  traces: number;
  spans: number;
  errors: number;
}

export interface SimulationResult {
  new: Simulated;
  old: Simulated;
  compared: number;
  left_out: number;
  both: Totals;
  only_new: Totals;
  only_old: Totals;
  neither: Totals;
  difference: Amount;
}

/** Every task, in the order of lists. A task that the API adds fails the check of types here. */
const TASK_ORDER: Record<Task, number> = { compact: 0, maintain: 1, rollup: 2, search: 3, series: 4, traces: 5, autopilot: 6, simulate: 7, layout: 8 };
export const TASKS = Object.keys(TASK_ORDER) as Task[];
/** Tasks that need no document beside the job, so that people can start them. */
export const STARTED_TASKS = TASKS.filter((task) => task !== "simulate" && task !== "layout");

/** A simulation: the result of a job is a document of its own, which OpenAPI does not describe. */
export type Simulation = Omit<SimulationReport, "result"> & { result: SimulationResult | null };

/** Return a path with parameters; empty ones are left out. */
export function withParams(path: string, params: Record<string, string | number | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== "") query.set(name, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Return the class of a state: words tell the state, the colour repeats it. */
export function toneOf(state: string): string {
  if (["dead", "failed"].includes(state)) return "bad";
  if (["paused", "cancelled", "rolled_back", "quiet"].includes(state)) return "warn";
  if (["running", "done", "merged", "due"].includes(state)) return "good";
  return "";
}

/** Return the class of a health from 0 to 100. */
export function healthTone(health: number | null): string {
  if (health === null) return "";
  return health >= 80 ? "good" : health >= 50 ? "warn" : "bad";
}
