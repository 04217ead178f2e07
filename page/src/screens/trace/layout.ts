/**
 * The layout of a trace: a tree from columns, whatever the spans are like.
 *
 * Parents may be missing, come later than their children, or form cycles. A cycle is opened at its earliest span. Nothing
 * recurses, so that depth has no limit.
 */

import type { SpanColumns } from "../../lib/documents.ts";

export interface TraceLayout {
  count: number;
  /** Spans in the order of rows: a parent, then its children. */
  order: Int32Array;
  /** Place of each span in `order`. */
  place: Int32Array;
  /** Parent of each span after cycles are opened, -1 for roots. */
  parent: Int32Array;
  depth: Int32Array;
  /** Number of spans below each span, itself included. */
  size: Int32Array;
  /** Number of spans with an error below each span, itself included. */
  errors: Int32Array;
  start: Float64Array;
  end: Float64Array;
  roots: number[];
  /** Spans whose cycle was opened. */
  cycles: number;
  /** Spans whose parent is not stored. */
  orphans: number;
  /** Earliest start and latest end, in nanoseconds. */
  first: number;
  last: number;
}

const ERROR = 2;

export function buildLayout(columns: SpanColumns, options: { errorsFirst?: boolean } = {}): TraceLayout {
  const count = columns.parent.length;
  const { start, end } = readTimes(columns);
  const { parent, cycles } = openCycles(columns.parent, start);
  const byStart = Int32Array.from({ length: count }, (_, index) => index);
  byStart.sort((one, other) => start[one]! - start[other]! || one - other);
  let walked = walk(parent, byStart);
  const errors = countErrors(walked.order, parent, columns.status);
  if (options.errorsFirst) {
    const bad = byStart.filter((span) => errors[span]! > 0);
    const good = byStart.filter((span) => errors[span] === 0);
    const sorted = new Int32Array(count);
    sorted.set(bad);
    sorted.set(good, bad.length);
    walked = walk(parent, sorted);
  }
  let first = Infinity;
  let last = -Infinity;
  for (let span = 0; span < count; span += 1) {
    first = Math.min(first, start[span]!, end[span]!);
    last = Math.max(last, start[span]!, end[span]!);
  }
  if (count === 0) first = last = 0;
  const orphans = columns.parent.reduce((sum, one) => sum + (one === -2 ? 1 : 0), 0);
  return { count, ...walked, parent, errors, start, end, cycles, orphans, first, last };
}

function readTimes(columns: SpanColumns): { start: Float64Array; end: Float64Array } {
  const count = columns.parent.length;
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  for (let span = 0; span < count; span += 1) {
    const own = columns.start[span];
    const above = columns.start[columns.parent[span]!];
    start[span] = Number(own ?? above ?? 0);
    end[span] = start[span]! + Number(columns.duration[span] ?? 0);
  }
  return { start, end };
}

/** Return parents without cycles: the earliest span of each cycle becomes a root. */
function openCycles(given: number[], start: Float64Array): { parent: Int32Array; cycles: number } {
  const count = given.length;
  const parent = Int32Array.from(given, (one) => (one >= 0 && one < count ? one : -1));
  const visited = new Int32Array(count); // 0: not yet, else the number of the walk
  let cycles = 0;
  for (let span = 0; span < count; span += 1) {
    let at = span;
    while (at >= 0 && visited[at] === 0) {
      visited[at] = span + 1;
      at = parent[at]!;
    }
    if (at < 0 || visited[at] !== span + 1) continue;
    let earliest = at;
    for (let next = parent[at]!; next !== at; next = parent[next]!) if (start[next]! < start[earliest]!) earliest = next;
    parent[earliest] = -1;
    cycles += 1;
  }
  return { parent, cycles };
}

/** Walk the tree depth first; children come in the order of `sorted`. */
function walk(parent: Int32Array, sorted: Int32Array): Pick<TraceLayout, "order" | "place" | "depth" | "size" | "roots"> {
  const count = parent.length;
  const child = new Int32Array(count).fill(-1);
  const sibling = new Int32Array(count).fill(-1);
  const roots: number[] = [];
  for (let index = count - 1; index >= 0; index -= 1) {
    const span = sorted[index]!;
    const above = parent[span]!;
    if (above < 0) {
      roots.push(span);
    } else {
      sibling[span] = child[above]!;
      child[above] = span;
    }
  }
  roots.reverse();
  const order = new Int32Array(count);
  const place = new Int32Array(count);
  const depth = new Int32Array(count);
  const size = new Int32Array(count).fill(1);
  let next = 0;
  for (const root of roots) {
    let span = root;
    while (span >= 0) {
      place[span] = next;
      order[next] = span;
      next += 1;
      depth[span] = parent[span]! < 0 ? 0 : depth[parent[span]!]! + 1;
      if (child[span]! >= 0) {
        span = child[span]!;
        continue;
      }
      while (span >= 0 && span !== root && sibling[span]! < 0) span = parent[span]!;
      span = span === root ? -1 : sibling[span]!;
    }
  }
  for (let index = count - 1; index >= 0; index -= 1) {
    const span = order[index]!;
    if (parent[span]! >= 0) size[parent[span]!]! += size[span]!;
  }
  return { order, place, depth, size, roots };
}

function countErrors(order: Int32Array, parent: Int32Array, status: number[]): Int32Array {
  const errors = Int32Array.from(status, (one) => (one === ERROR ? 1 : 0));
  for (let index = order.length - 1; index >= 0; index -= 1) {
    const span = order[index]!;
    if (parent[span]! >= 0) errors[parent[span]!]! += errors[span]!;
  }
  return errors;
}

/** Return the spans of the rows in sight: what is below a collapsed span is left out. */
export function visibleSpans(layout: TraceLayout, collapsed: ReadonlySet<number>): Int32Array {
  if (collapsed.size === 0) return layout.order;
  const rows = new Int32Array(layout.count);
  let count = 0;
  for (let place = 0; place < layout.count; ) {
    const span = layout.order[place]!;
    rows[count] = span;
    count += 1;
    place += collapsed.has(span) ? layout.size[span]! : 1;
  }
  return rows.subarray(0, count);
}

/** Return the collapsed spans without the ancestors of a span, so that it is in sight. */
export function reveal(layout: TraceLayout, collapsed: ReadonlySet<number>, span: number): Set<number> {
  const open = new Set(collapsed);
  for (let above = layout.parent[span] ?? -1; above >= 0; above = layout.parent[above]!) open.delete(above);
  return open;
}

/** Return the spans with children at a depth or deeper: collapsing them shows the levels above. */
export function spansBelow(layout: TraceLayout, depth: number): Set<number> {
  const found = new Set<number>();
  for (let span = 0; span < layout.count; span += 1) {
    if (layout.depth[span]! >= depth && layout.size[span]! > 1) found.add(span);
  }
  return found;
}

/** Return the spans whose name, service or id contains a text, in the order of rows. */
export function searchSpans(
  layout: TraceLayout,
  columns: SpanColumns,
  names: string[],
  services: string[],
  text: string,
): number[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const isName = names.map((name) => name.toLowerCase().includes(wanted));
  const isService = services.map((name) => name.toLowerCase().includes(wanted));
  const found: number[] = [];
  for (const span of layout.order) {
    if (isName[columns.name[span]!] || isService[columns.service[span]!] || columns.span_id[span]?.startsWith(wanted)) {
      found.push(span);
    }
  }
  return found;
}
