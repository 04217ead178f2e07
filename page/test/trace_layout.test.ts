/** Properties of the layout of traces over generated cases, and its cost for large ones. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { findCriticalPath } from "../src/screens/trace/critical_path.ts";
import { buildLayout, reveal, searchSpans, type SpanColumns, spansBelow, visibleSpans } from "../src/screens/trace/layout.ts";
import { pickInteger, randomSource } from "./random.ts";

const CASES = 2000;

/** Return columns with parents and times; all else is filled in. */
function makeColumns(parent: number[], start: (number | string | null)[], duration: (number | string | null)[], status: number[] = []): SpanColumns {
  const zeros = parent.map(() => 0);
  return {
    span_id: parent.map((_, index) => index.toString(16).padStart(16, "0")),
    parent,
    start,
    duration,
    service: zeros,
    name: parent.map((_, index) => index % 3),
    kind: zeros,
    status: parent.map((_, index) => status[index] ?? 0),
    events: zeros,
    links: zeros,
  };
}

/** Return any columns: cycles, own parents, missing parents, several roots, children before parents, odd times. */
function anyColumns(seed: number): SpanColumns {
  const random = randomSource(seed);
  const count = pickInteger(random, 0, 40);
  const parents = Array.from({ length: count }, () => pickInteger(random, -2, count - 1));
  const starts = parents.map(() => [pickInteger(random, 0, 100), null, String(2 ** 60)][random() < 0.9 ? 0 : pickInteger(random, 0, 2)]!);
  const durations = parents.map(() => (random() < 0.1 ? null : pickInteger(random, -20, 80)));
  return makeColumns(parents, starts, durations, parents.map(() => pickInteger(random, 0, 2)));
}

/** Return a proper tree: children within their parents. */
function nestedColumns(seed: number): SpanColumns {
  const random = randomSource(seed);
  const count = pickInteger(random, 1, 40);
  const parents = [-1];
  const starts = [0];
  const durations = [1000];
  for (let span = 1; span < count; span += 1) {
    const above = pickInteger(random, 0, span - 1);
    const start = pickInteger(random, starts[above]!, starts[above]! + durations[above]!);
    parents.push(above);
    starts.push(start);
    durations.push(pickInteger(random, 0, starts[above]! + durations[above]! - start));
  }
  return makeColumns(parents, starts, durations);
}

function forCases(check: (seed: number) => void): void {
  for (let seed = 0; seed < CASES; seed += 1) {
    try {
      check(seed);
    } catch (error) {
      throw new Error(`case ${seed}: ${String(error)}`, { cause: error });
    }
  }
}

test("every span has one row, below its parent and within its subtree", () => {
  forCases((seed) => {
    const columns = anyColumns(seed);
    const layout = buildLayout(columns);
    assert.deepEqual([...layout.order].sort((one, other) => one - other), columns.parent.map((_, index) => index));
    for (let span = 0; span < layout.count; span += 1) {
      assert.equal(layout.order[layout.place[span]!], span);
      const above = layout.parent[span]!;
      if (above < 0) {
        assert.equal(layout.depth[span], 0);
        continue;
      }
      assert.equal(above, columns.parent[span]);
      assert.equal(layout.depth[span], layout.depth[above]! + 1);
      assert.ok(layout.place[span]! > layout.place[above]!);
      assert.ok(layout.place[span]! + layout.size[span]! <= layout.place[above]! + layout.size[above]!);
    }
  });
});

test("a parent is dropped only to open a cycle, once for each", () => {
  forCases((seed) => {
    const columns = anyColumns(seed);
    const layout = buildLayout(columns);
    const dropped = columns.parent.filter((one, span) => one >= 0 && layout.parent[span] === -1);
    assert.equal(dropped.length, layout.cycles);
    assert.equal(layout.roots.length, columns.parent.filter((one) => one < 0).length + layout.cycles);
    assert.equal(layout.orphans, columns.parent.filter((one) => one === -2).length);
  });
});

test("siblings are ordered by start, and with errors first by errors", () => {
  forCases((seed) => {
    const columns = anyColumns(seed);
    for (const errorsFirst of [false, true]) {
      const layout = buildLayout(columns, { errorsFirst });
      const last = new Map<number, number>();
      for (const span of layout.order) {
        const before = last.get(layout.parent[span]!);
        last.set(layout.parent[span]!, span);
        if (before === undefined) continue;
        const isBad = [before, span].map((one) => errorsFirst && layout.errors[one]! > 0);
        assert.ok(isBad[0] || !isBad[1]);
        if (isBad[0] === isBad[1]) assert.ok(layout.start[before]! <= layout.start[span]!);
      }
      const roots = layout.roots.reduce((sum, root) => sum + layout.errors[root]!, 0);
      assert.equal(roots, columns.status.filter((one) => one === 2).length);
    }
  });
});

test("a collapsed span hides its subtree, and revealing shows a span", () => {
  forCases((seed) => {
    const random = randomSource(seed + 1);
    const columns = anyColumns(seed);
    const layout = buildLayout(columns);
    const collapsed = new Set([...layout.order].filter(() => random() < 0.3));
    const isHidden = (span: number): boolean => {
      for (let above = layout.parent[span]!; above >= 0; above = layout.parent[above]!) if (collapsed.has(above)) return true;
      return false;
    };
    assert.deepEqual([...visibleSpans(layout, collapsed)], [...layout.order].filter((span) => !isHidden(span)));
    for (const span of layout.order) assert.ok(visibleSpans(layout, reveal(layout, collapsed, span)).includes(span));
    const levels = visibleSpans(layout, spansBelow(layout, 1));
    assert.ok([...levels].every((span) => layout.depth[span]! <= 1));
  });
});

test("the critical path of nested spans is as long as the root, without a gap or an overlap", () => {
  forCases((seed) => {
    const layout = buildLayout(nestedColumns(seed));
    const path = findCriticalPath(layout);
    let at = 0;
    for (const segment of path) {
      assert.equal(segment.start, at);
      assert.ok(layout.start[segment.span]! <= segment.start && segment.end <= layout.end[segment.span]!);
      at = segment.end;
    }
    assert.equal(at, 1000);
  });
});

test("the critical path of any trace lies within a root and does not overlap", () => {
  forCases((seed) => {
    const layout = buildLayout(anyColumns(seed));
    const path = findCriticalPath(layout);
    path.forEach((segment, index) => {
      assert.ok(segment.start < segment.end);
      if (index > 0) assert.ok(path[index - 1]!.end <= segment.start);
    });
    const longest = Math.max(0, ...layout.roots.map((root) => layout.end[root]! - layout.start[root]!));
    assert.equal(path.reduce((sum, one) => sum + one.end - one.start, 0), longest);
  });
});

test("search finds names, services and the beginning of ids", () => {
  const columns = makeColumns([-1, 0, 0], [0, 1, 2], [9, 1, 1]);
  const layout = buildLayout(columns);
  const find = (text: string): number[] => searchSpans(layout, columns, ["GET /cart", "query", "<b>"], ["shop"], text);
  assert.deepEqual(find("CART"), [0]);
  assert.deepEqual(find("shop"), [0, 1, 2]);
  assert.deepEqual(find("0000000000000002"), [2]);
  assert.deepEqual(find("  "), []);
});

/** Return the milliseconds of CPU that a layout of some spans takes, the least of three. */
function measure(columns: SpanColumns): number {
  const times = Array.from({ length: 3 }, () => {
    const before = process.cpuUsage();
    const layout = buildLayout(columns, { errorsFirst: true });
    findCriticalPath(layout);
    visibleSpans(layout, spansBelow(layout, 3));
    const used = process.cpuUsage(before);
    return (used.user + used.system) / 1000;
  });
  return Math.min(...times);
}

function largeColumns(count: number, parentOf: (span: number) => number): SpanColumns {
  const spans = Array.from({ length: count }, (_, span) => span);
  return makeColumns(spans.map(parentOf), spans, spans.map((span) => 2 * (count - span)));
}

test("ten times the spans cost at most forty times the CPU, in wide, deep and cyclic traces", () => {
  const shapes: [string, (count: number) => (span: number) => number][] = [
    ["wide", () => (span) => (span === 0 ? -1 : 0)],
    ["deep", () => (span) => span - 1],
    ["tree", () => (span) => (span === 0 ? -1 : Math.floor((span - 1) / 3))],
    ["cycle", (count) => (span) => (span + 1) % count],
  ];
  for (const [name, parentOf] of shapes) {
    const small = measure(largeColumns(10_000, parentOf(10_000)));
    const large = measure(largeColumns(100_000, parentOf(100_000)));
    console.log(`${name}: 10,000 spans ${small.toFixed(1)} ms, 100,000 spans ${large.toFixed(1)} ms of CPU`);
    assert.ok(large <= 40 * Math.max(small, 2), `${name}: ${small} and ${large} ms`);
  }
});
