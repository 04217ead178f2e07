/** The service map: every node and edge has a place, and large maps begin with one service. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Edge, Service } from "../src/screens/services/service_data.ts";
import { drawPath, layoutMap, MOST_NODES } from "../src/screens/services/service_map.ts";
import { pickInteger, randomSource } from "./random.ts";

const calls = { calls: 1, errors: 0, p50_ms: 1, p95_ms: 1, p99_ms: 1 };
const service = (name: string): Service => ({ service: name, spans: 1, ...calls });
const edge = (client: string, server: string, connection = ""): Edge => ({ client, server, connection, ...calls, estimated_calls: 1, estimated_errors: 0 });

test("services without neighbours, users, databases and parallel edges are on the map", () => {
  const map = layoutMap([service("web"), service("alone")], [edge("user", "web", "virtual_node"), edge("web", "cards", "database"), edge("web", "cards", "virtual_node"), edge("web", "web")], undefined);
  assert.deepEqual(new Map(map.nodes.map((one) => [one.name, one.kind])), new Map([["web", "service"], ["alone", "service"], ["user", "user"], ["cards", "database"]]));
  assert.equal(map.edges.length, 3); // a call of itself is not drawn
  assert.equal(map.left_out, 0);
  for (const one of map.edges) assert.match(drawPath(one.points), /^M[-\d.,]+/);
});

test("above the limit the map begins with one service and its neighbours, and counts the rest", () => {
  const names = Array.from({ length: 200 }, (_, index) => `service-${index}`);
  const edges = names.slice(1).map((name, index) => edge(index % 10 === 0 ? "service-0" : "service-5", name));
  const map = layoutMap(names.map(service), edges, undefined);
  assert.ok(map.nodes.length <= MOST_NODES);
  assert.equal(map.nodes.length + map.left_out, 200);
  assert.ok(map.focus);
  assert.equal(layoutMap(names.map(service), edges, "service-0").focus, "service-0");
});

test("any graph, cyclic or empty, has finite places", () => {
  for (let seed = 0; seed < 60; seed += 1) {
    const random = randomSource(seed);
    const count = pickInteger(random, 0, 12);
    const name = (): string => `s${pickInteger(random, 0, Math.max(0, count - 1))}`;
    const edges = Array.from({ length: pickInteger(random, 0, 20) }, () => [name(), name()].join(">"));
    const unique = [...new Set(edges)].map((one) => edge(...(one.split(">") as [string, string])));
    const map = layoutMap(Array.from({ length: count }, (_, index) => service(`s${index}`)), unique, undefined);
    assert.ok(map.nodes.every((one) => Number.isFinite(one.x) && Number.isFinite(one.y)));
    assert.ok(map.edges.every((one) => one.points.length > 0));
  }
});
