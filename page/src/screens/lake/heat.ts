/** Partitions by day, for the heat map. */

interface Labelled {
  partition: string;
  health: number;
}

export interface Day<One> {
  day: string;
  partitions: One[];
}

/** Pixels from one square to the next. */
export const SIDE = 12;
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

/** Return the squares of the chosen places as one path of SVG: a thousand elements would be dear. */
export function drawSquares(isChosen: boolean[], perLine: number): string {
  const side = SIDE - 2;
  return isChosen
    .map((is, index) => (is ? `M${(index % perLine) * SIDE} ${Math.floor(index / perLine) * SIDE}h${side}v${side}h-${side}z` : ""))
    .join("");
}

/** Return the place of the square at a point; one that does not exist is beyond the end of the list. */
export function indexAt(x: number, y: number, perLine: number): number {
  return Math.floor(y / SIDE) * perLine + Math.min(perLine - 1, Math.max(0, Math.floor(x / SIDE)));
}
