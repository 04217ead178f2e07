/** Sums of costs by task, table or day. */

import type { CostLine } from "../../lib/documents.ts";

export interface Sum {
  name: string;
  runs: number;
  seconds: number;
  /** null: none of the lines has a count. */
  calls: number | null;
  estimated: number | null;
  dollars: number;
}

/** Return the sums, the largest amount first; days come newest first. */
export function sumBy(lines: CostLine[], by: "task" | "table" | "day"): Sum[] {
  const sums = new Map<string, Sum>();
  for (const line of lines) {
    const name = line[by];
    const sum = sums.get(name) ?? { name, runs: 0, seconds: 0, calls: null, estimated: null, dollars: 0 };
    sum.runs += line.runs;
    sum.seconds += line.seconds;
    sum.calls = add(sum.calls, line.calls);
    sum.estimated = add(sum.estimated, line.estimated_dollars);
    sum.dollars += line.dollars;
    sums.set(name, sum);
  }
  const found = [...sums.values()];
  if (by === "day") return found.sort((one, other) => other.name.localeCompare(one.name));
  return found.sort((one, other) => other.dollars - one.dollars || one.name.localeCompare(other.name));
}

function add(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : one + other;
}
