/** A result as a chart: a column of times, and columns of numbers, perhaps by one column of names. */

import type { Column } from "../../lib/api.ts";

export const MOST_SERIES = 50;

export interface ChartData {
  times: number[];
  series: { label: string; values: (number | null)[] }[];
  /** Series that are not shown: the smallest. */
  left_out: number;
}

export function isTime(type: string): boolean {
  return /^(timestamp|date)/.test(type);
}

export function isNumeric(type: string): boolean {
  return /^(u?int|float|double|half|decimal)/.test(type);
}

/** Return the chart of a result, or undefined if it has no times or no numbers. */
export function buildChart(columns: Column[], data: unknown[][]): ChartData | undefined {
  const time = columns.findIndex((one) => isTime(one.type));
  const numbers = columns.map((one, index) => ({ ...one, index })).filter((one) => isNumeric(one.type));
  if (time < 0 || numbers.length === 0) return undefined;
  const label = columns.findIndex((one) => /^(string|large_string|dictionary)/.test(one.type));
  const rows = (data[time] ?? []).map((one) => Date.parse(String(one)) / 1000);
  const times = [...new Set(rows.filter((one) => !Number.isNaN(one)))].sort((one, other) => one - other);
  const places = new Map(times.map((one, index) => [one, index]));
  const series = new Map<string, (number | null)[]>();
  rows.forEach((at, row) => {
    const place = places.get(at);
    if (place === undefined) return;
    for (const number of numbers) {
      const value = data[number.index]![row];
      const name = label < 0 ? number.name : `${String(data[label]![row] ?? "–")}${numbers.length > 1 ? ` ${number.name}` : ""}`;
      let values = series.get(name);
      if (!values) series.set(name, (values = new Array<number | null>(times.length).fill(null)));
      values[place] = value === null ? null : Number(value);
    }
  });
  const sorted = [...series].map(([name, values]) => ({ label: name, values })).sort((one, other) => sum(other.values) - sum(one.values));
  return { times, series: sorted.slice(0, MOST_SERIES), left_out: Math.max(0, sorted.length - MOST_SERIES) };
}

function sum(values: (number | null)[]): number {
  return values.reduce<number>((total, one) => total + Math.abs(one ?? 0), 0);
}
