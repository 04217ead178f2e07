/** Counts by time and key as stacked bars, for charts over time. */

export interface Counted {
  at: string;
  key: string;
  count: number;
}

export interface StackedBars {
  times: number[];
  stacks: { key: string; label: string; token: string; values: number[] }[];
}

const MOST_STACKS = 8;
const MOST_BARS = 400;
const OTHERS = "others";

/** Return bars without gaps: an interval without counts is a bar of height 0. Rare keys become one stack. */
export function stackBars(found: Counted[], stepSeconds: number, tokenOf: (key: string, place: number) => string = seriesToken): StackedBars {
  if (found.length === 0) return { times: [], stacks: [] };
  const step = stepSeconds * 1000;
  const starts = found.map((one) => Date.parse(one.at));
  const first = Math.min(...starts);
  const length = Math.min(MOST_BARS, Math.round((Math.max(...starts) - first) / step) + 1);
  const sums = new Map<string, number>();
  for (const one of found) sums.set(one.key, (sums.get(one.key) ?? 0) + one.count);
  const keys = [...sums].sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0])).map(([key]) => key);
  const own = keys.slice(0, keys.length > MOST_STACKS ? MOST_STACKS - 1 : MOST_STACKS);
  const names = keys.length > own.length ? [...own, OTHERS] : own;
  const stacks = names.map((key, place) => ({ key, label: key || "none", token: tokenOf(key, place), values: Array<number>(length).fill(0) }));
  found.forEach((one, index) => {
    const place = Math.round((starts[index]! - first) / step);
    const stack = stacks[own.includes(one.key) ? own.indexOf(one.key) : own.length];
    if (stack && place < length) stack.values[place]! += one.count;
  });
  return { times: Array.from({ length }, (_, index) => first + index * step), stacks };
}

function seriesToken(_key: string, place: number): string {
  return `--series-${place % 12}`;
}
