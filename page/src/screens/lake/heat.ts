/** Partitions by day, for the heat map. */

interface Labelled {
  partition: string;
  health: number;
}

export interface Day<One> {
  day: string;
  partitions: One[];
}

const DAY = /\d{4}-\d{2}-\d{2}/;

/** Group partitions by the day in their labels, newest day first; within a day the order stays. */
export function groupByDay<One extends Labelled>(partitions: One[]): Day<One>[] {
  const days = new Map<string, One[]>();
  for (const one of partitions) {
    const day = DAY.exec(one.partition)?.[0] ?? "no day";
    const found = days.get(day);
    if (found) found.push(one);
    else days.set(day, [one]);
  }
  return [...days].map(([day, found]) => ({ day, partitions: found })).sort((one, other) => other.day.localeCompare(one.day));
}
