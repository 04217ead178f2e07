/** The client of Prometheus' API: its envelopes as results and errors of the page. */

import { ApiError, isAbort, turn } from "../../lib/api.ts";
import type { Period } from "../../lib/time.ts";
import type { Expression, Metric } from "./expressions.ts";

const PREFIX = "/prometheus/api/v1";
export const MOST_SERIES = 50;

interface Envelope<Data> {
  status: "success" | "error";
  data: Data;
  error?: string;
  errorType?: string;
}

interface Answer<Data> {
  data: Data;
  queryId: string | null;
}

async function get<Data>(path: string, params: [string, string][], signal: AbortSignal): Promise<Answer<Data>> {
  return turn(signal, async () => {
    let response: Response;
    try {
      response = await fetch(`${PREFIX}${path}?${new URLSearchParams(params)}`, { signal, headers: { "neve-client": "page" } });
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new ApiError(0, "unreachable", "the server does not answer", "it may be restarting: try again");
    }
    const queryId = response.headers.get("neve-query-id");
    if (response.status === 404) throw new ApiError(404, "not_found", "PromQL is not served here", "set query.promql to true");
    const envelope = (await response.json()) as Envelope<Data>;
    if (envelope.status !== "success") throw new ApiError(response.status, envelope.errorType ?? "failed", envelope.error ?? "failed", null, queryId);
    return { data: envelope.data, queryId };
  });
}

function bounds(period: Period): [string, string][] {
  return [
    ["start", period.since],
    ["end", period.until],
  ];
}

export async function loadMetrics(period: Period, signal: AbortSignal): Promise<Metric[]> {
  const { data } = await get<Record<string, { type: string; unit: string; help: string }[]>>("/metadata", bounds(period), signal);
  return Object.entries(data)
    .map(([name, all]) => ({ name, type: all[0]?.type ?? "unknown", unit: all[0]?.unit ?? "", help: all[0]?.help ?? "" }))
    .sort((one, other) => one.name.localeCompare(other.name));
}

/** Return the labels of a metric, without those of buckets. */
export async function loadLabels(metric: Metric, period: Period, signal: AbortSignal): Promise<string[]> {
  const part = metric.type === "histogram" || metric.type === "summary" ? "_count" : "";
  const names = [metric.name, metric.name + part].map((name): [string, string] => ["match[]", `{__name__="${name}"}`]);
  const { data } = await get<string[]>("/labels", [...names, ...bounds(period)], signal);
  return data.filter((name) => !["__name__", "le", "quantile"].includes(name));
}

export interface ChartSeries {
  label: string;
  values: (number | null)[];
}

export interface ChartAnswer {
  times: number[];
  series: ChartSeries[];
  /** Series that are not shown: the smallest. */
  left_out: number;
  queryIds: string[];
}

interface Matrix {
  result: { metric: Record<string, string>; values?: [number, string][] }[];
}

/** Evaluate expressions over a period, and return the largest series. */
export async function loadChart(expressions: Expression[], period: Period, step: number, signal: AbortSignal): Promise<ChartAnswer> {
  const answers = await Promise.all(
    expressions.map((one) => get<Matrix>("/query_range", [["query", one.text], ["step", String(step)], ...bounds(period)], signal)),
  );
  const times = [...new Set(answers.flatMap((one) => one.data.result.flatMap((series) => (series.values ?? []).map(([time]) => time))))].sort((one, other) => one - other);
  const places = new Map(times.map((time, index) => [time, index]));
  const all = answers.flatMap((answer, index) =>
    answer.data.result.map((series) => {
      const values = new Array<number | null>(times.length).fill(null);
      for (const [time, text] of series.values ?? []) {
        const value = Number(text);
        values[places.get(time)!] = Number.isFinite(value) ? value : null;
      }
      return { label: describeLabels(series.metric) || expressions[index]!.label, values };
    }),
  );
  all.sort((one, other) => sum(other.values) - sum(one.values));
  const queryIds = answers.map((one) => one.queryId).filter((id): id is string => Boolean(id));
  return { times, series: all.slice(0, MOST_SERIES), left_out: Math.max(0, all.length - MOST_SERIES), queryIds };
}

function sum(values: (number | null)[]): number {
  return values.reduce<number>((total, one) => total + Math.abs(one ?? 0), 0);
}

export function describeLabels(labels: Record<string, string>): string {
  const rest = Object.entries(labels).filter(([name]) => name !== "__name__");
  return rest.length === 1 ? rest[0]![1] : rest.map(([name, value]) => `${name}=${value}`).join(", ");
}

export interface Exemplar {
  traceId: string;
  spanId: string | undefined;
  time: number;
  value: number;
  series: string;
}

/** Return the newest exemplars of a metric that have a trace. */
export async function loadExemplars(metric: Metric, where: string, period: Period, signal: AbortSignal): Promise<Exemplar[]> {
  const part = metric.type === "histogram" ? "_bucket" : "";
  const match = where.trim() ? `{${where.trim()}}` : "";
  interface Found {
    seriesLabels: Record<string, string>;
    exemplars: { labels: Record<string, string>; value: string; timestamp: number }[];
  }
  const { data } = await get<Found[]>("/query_exemplars", [["query", `${metric.name}${part}${match}`], ...bounds(period)], signal);
  const all = data.flatMap((one) =>
    one.exemplars
      .filter((exemplar) => exemplar.labels.trace_id)
      .map((exemplar) => ({
        traceId: exemplar.labels.trace_id!,
        spanId: exemplar.labels.span_id,
        time: exemplar.timestamp,
        value: Number(exemplar.value),
        series: one.seriesLabels.service_name ?? one.seriesLabels.job ?? "",
      })),
  );
  return all.sort((one, other) => other.value - one.value);
}
