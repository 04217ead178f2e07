/** PromQL for a metric: the rate of a counter, quantiles of a histogram, the value of a gauge. */

export interface Metric {
  name: string;
  type: string;
  unit: string;
  help: string;
}

export interface Expression {
  label: string;
  text: string;
}

/** Functions that make sense for a type of metric; the first is the default. */
export const FUNCTIONS: Record<string, string[]> = {
  counter: ["rate", "increase", "value"],
  histogram: ["quantiles", "rate", "average"],
  summary: ["rate", "average"],
  gauge: ["avg", "sum", "min", "max"],
};

const QUANTILES = [0.5, 0.95, 0.99];

export function functionsOf(type: string): string[] {
  return FUNCTIONS[type] ?? FUNCTIONS.gauge!;
}

/** Return the window of a rate: at least two steps and a minute, so that it holds samples. */
export function rateWindow(step: number): string {
  return `${Math.max(60, 2 * step)}s`;
}

/** Write the expressions of a chart. `by` is a label or empty, `where` are matchers as typed: job="shop". */
export function writeExpressions(metric: Metric, chosen: string, by: string, where: string, step: number): Expression[] {
  const window = rateWindow(step);
  const match = where.trim() ? `{${where.trim()}}` : "";
  const group = by ? ` by (${quoteLabel(by)})` : "";
  const select = (part: string, range = ""): string => `${metric.name}${part}${match}${range}`;
  switch (chosen) {
    case "rate":
    case "increase": {
      const part = metric.type === "histogram" || metric.type === "summary" ? "_count" : "";
      return [{ label: chosen, text: `sum${group} (${chosen}(${select(part, `[${window}]`)}))` }];
    }
    case "average":
      return [{ label: "average", text: `sum${group} (rate(${select("_sum", `[${window}]`)})) / sum${group} (rate(${select("_count", `[${window}]`)}))` }];
    case "quantiles":
      return (by ? [0.95] : QUANTILES).map((share) => ({ label: `p${share * 100}`, text: writeQuantile(share, by, select, window) }));
    case "value":
      return [{ label: "value", text: `sum${group} (${select("")})` }];
  }
  return [{ label: chosen, text: `${chosen}${group} (${select("")})` }];
}

/** Write a quantile of a histogram with buckets, or of a native one: only one of them has samples. */
function writeQuantile(share: number, by: string, select: (part: string, range: string) => string, window: string): string {
  const labels = ["le", ...(by ? [quoteLabel(by)] : [])].join(", ");
  const group = by ? ` by (${quoteLabel(by)})` : "";
  const range = `[${window}]`;
  return `histogram_quantile(${share}, sum by (${labels}) (rate(${select("_bucket", range)}))) or histogram_quantile(${share}, sum${group} (rate(${select("", range)})))`;
}

/** Return a label as PromQL writes it: names of other characters are quoted. */
export function quoteLabel(name: string): string {
  return /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) ? name : JSON.stringify(name);
}

/** Format a value with the unit of its metric. */
export function formatUnit(value: number, unit: string, chosen: string): string {
  const isRate = chosen === "rate";
  const short = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
  if (isRate) return `${short}/s`;
  if (unit === "seconds") return Math.abs(value) < 1 ? `${Number((value * 1000).toPrecision(3))} ms` : `${short} s`;
  if (unit === "bytes") return formatBinary(value);
  if (unit === "ratio") return `${Number((value * 100).toPrecision(3))} %`;
  return short;
}

function formatBinary(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${Number(size.toPrecision(3))} ${units[unit]}`;
}
