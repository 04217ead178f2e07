/** Pure parts of the screens for operators: sums, heat map, bars, bytes and paths. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { sumBy } from "../src/screens/costs/sums.ts";
import { drawSquares, groupByDay, indexAt } from "../src/screens/lake/heat.ts";
import { pathOf } from "../src/screens/layouts/path.ts";
import { dumpHex } from "../src/screens/proof/hex.ts";
import { stackBars } from "../src/screens/sampling/bars.ts";
import { pickInteger, randomSource } from "./random.ts";

test("sums keep every dollar, the largest first, and days newest first", () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const random = randomSource(seed);
    const lines = Array.from({ length: pickInteger(random, 0, 40) }, () => ({
      day: `2026-01-0${pickInteger(random, 1, 9)}`,
      task: `task-${pickInteger(random, 0, 3)}`,
      table: `table-${pickInteger(random, 0, 5)}`,
      runs: pickInteger(random, 0, 9),
      seconds: pickInteger(random, 0, 99),
      calls: random() < 0.3 ? null : pickInteger(random, 0, 99),
      estimated_dollars: random() < 0.3 ? null : pickInteger(random, 0, 9),
      dollars: pickInteger(random, 0, 9),
    }));
    for (const by of ["task", "table", "day"] as const) {
      const sums = sumBy(lines, by);
      const total = (values: number[]): number => values.reduce((one, other) => one + other, 0);
      assert.equal(total(sums.map((one) => one.dollars)), total(lines.map((one) => one.dollars)));
      assert.equal(total(sums.map((one) => one.calls ?? 0)), total(lines.map((one) => one.calls ?? 0)));
      assert.deepEqual(new Set(sums.map((one) => one.name)), new Set(lines.map((one) => one[by])));
      const order = sums.map((one) => (by === "day" ? one.name : one.dollars));
      assert.deepEqual(order, order.toSorted((one, other) => (one < other ? 1 : one > other ? -1 : 0)));
      for (const sum of sums) assert.equal(sum.calls === null, lines.filter((one) => one[by] === sum.name).every((one) => one.calls === null));
    }
  }
});

test("every partition is in the heat map once, by the day of its label", () => {
  const partitions = ["day=2026-01-02/x", "day=2026-01-03", "no time", "day=2026-01-02/y"].map((partition, health) => ({ partition, health }));
  const days = groupByDay(partitions);
  assert.deepEqual(days.map((one) => one.day), ["no day", "2026-01-03", "2026-01-02"]);
  assert.deepEqual(days[2]!.partitions.map((one) => one.health), [0, 3]);
  assert.deepEqual(groupByDay([]), []);
});

test("bars have no gaps, and all counts are in them", () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const random = randomSource(seed);
    const found = Array.from({ length: pickInteger(random, 0, 60) }, () => ({
      at: new Date(pickInteger(random, 0, 300) * 60_000).toISOString(),
      key: `key-${pickInteger(random, 0, 14)}`,
      count: pickInteger(random, 0, 5),
    }));
    const { times, stacks } = stackBars(found, 60);
    assert.ok(stacks.length <= 8);
    assert.ok(times.every((one, index) => index === 0 || one - times[index - 1]! === 60_000));
    const drawn = stacks.flatMap((one) => one.values).reduce((one, other) => one + other, 0);
    assert.equal(drawn, found.reduce((sum, one) => sum + one.count, 0));
  }
});

test("a dump has every byte, its offset, and its text", () => {
  assert.equal(dumpHex(""), "");
  const bytes = Array.from({ length: 33 }, (_, index) => index * 7);
  const lines = dumpHex(bytes.map((one) => one.toString(16).padStart(2, "0")).join("")).split("\n");
  assert.deepEqual(lines.map((line) => Number.parseInt(line.slice(0, 8), 16)), [0, 16, 32]);
  const read = lines.flatMap((line) => line.slice(10, 59).trim().split(/\s+/).map((pair) => Number.parseInt(pair, 16)));
  assert.deepEqual(read, bytes);
  assert.match(lines[0]!, /#\*18\?FMT\[bi$/);
});

test("a path shows where an attempt is, where it ended, and what is left", () => {
  const states = (stage: string, stages: string[], outcome: unknown = null): string[] =>
    pathOf({ stage, steps: stages.map((one) => ({ stage: one })), outcome }).map((one) => `${one.name} ${one.state}`);
  assert.deepEqual(states("staged", ["recommended", "staged"]), ["recommended done", "staged here", "canary left", "proposed left", "merged left", "measured left"]);
  assert.deepEqual(states("merged", ["recommended", "staged", "merged"], {}).at(-1), "measured done");
  assert.deepEqual(states("rolled_back", ["recommended", "merged", "rolled_back"]), ["recommended done", "merged done", "rolled back ended"]);
});

test("every chosen square is drawn once, and a point inside it finds its place", () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const random = randomSource(seed);
    const perLine = pickInteger(random, 8, 90);
    const isChosen = Array.from({ length: pickInteger(random, 0, 200) }, () => random() < 0.5);
    const path = drawSquares(isChosen, perLine);
    assert.equal(path.match(/M/g)?.length ?? 0, isChosen.filter(Boolean).length);
    const places = [...path.matchAll(/M(\d+) (\d+)/g)].map(([, x, y]) => indexAt(Number(x) + 5, Number(y) + 5, perLine));
    assert.deepEqual(places, isChosen.flatMap((is, index) => (is ? [index] : [])));
  }
});
