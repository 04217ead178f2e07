/**
 * The critical path of a trace: the work that its duration consists of, from the end backwards.
 *
 * At each moment the span counts whose end the one above it waited for: the child that ended last. Parts of children
 * outside their parent do not count. Segments do not overlap, and together they are as long as the root.
 */

import type { TraceLayout } from "./layout.ts";

export interface Segment {
  span: number;
  start: number;
  end: number;
}

/** A span whose time is explained from `limit` backwards to `from`; `until` is the part that is left. */
interface Frame {
  span: number;
  from: number;
  limit: number;
  until: number;
  /** Children by their end, the last first, and the number of those that were looked at. */
  children: number[];
  next: number;
}

/** Return the segments of the longest root's critical path, ordered by time. */
export function findCriticalPath(layout: TraceLayout): Segment[] {
  const root = longestRoot(layout);
  if (root < 0) return [];
  const children = listChildren(layout);
  const segments: Segment[] = [];
  const stack = [openFrame(layout, children, root, layout.start[root]!, layout.end[root]!)];
  while (stack.length > 0) {
    const frame = stack[stack.length - 1]!;
    const child = nextChild(layout, frame);
    if (child < 0) {
      addSegment(segments, frame.span, frame.from, frame.until);
      stack.pop();
      continue;
    }
    const start = Math.max(layout.start[child]!, frame.from);
    const end = Math.min(layout.end[child]!, frame.limit);
    addSegment(segments, frame.span, end, frame.until);
    frame.until = start;
    stack.push(openFrame(layout, children, child, start, end));
  }
  return segments.reverse();
}

function longestRoot(layout: TraceLayout): number {
  let found = -1;
  let longest = 0;
  for (const root of layout.roots) {
    const duration = layout.end[root]! - layout.start[root]!;
    if (duration > longest) {
      found = root;
      longest = duration;
    }
  }
  return found;
}

function listChildren(layout: TraceLayout): Map<number, number[]> {
  const children = new Map<number, number[]>();
  for (const span of layout.order) {
    const above = layout.parent[span]!;
    if (above < 0) continue;
    const known = children.get(above);
    if (known) known.push(span);
    else children.set(above, [span]);
  }
  return children;
}

function openFrame(layout: TraceLayout, children: Map<number, number[]>, span: number, from: number, until: number): Frame {
  const own = children.get(span) ?? [];
  own.sort((one, other) => layout.end[other]! - layout.end[one]! || one - other);
  return { span, from, limit: until, until, children: own, next: 0 };
}

/** Return the child that ended last before the time that is left, or -1. */
function nextChild(layout: TraceLayout, frame: Frame): number {
  while (frame.next < frame.children.length) {
    const child = frame.children[frame.next]!;
    frame.next += 1;
    const start = Math.max(layout.start[child]!, frame.from);
    const end = Math.min(layout.end[child]!, frame.limit);
    if (end <= frame.until && start < end) return child;
  }
  return -1;
}

function addSegment(segments: Segment[], span: number, start: number, end: number): void {
  if (start < end) segments.push({ span, start, end });
}
