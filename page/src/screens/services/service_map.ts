/** The service map: which services and edges it shows, and where. */

import dagre from "@dagrejs/dagre";

import type { Edge, Service } from "./service_data.ts";

export const MOST_NODES = 60;
const NODE_HEIGHT = 44;
const CHARACTER = 7.4;
const LEAST_WIDTH = 156; // room for rate and errors
const MARGIN = 24;
const LABEL = { height: 16, labelpos: "c" } as const;

/** user: a caller without spans; service: it has spans; database, queue, peer: named by attributes of its callers. */
export type NodeKind = "user" | "service" | "database" | "queue" | "peer";

export interface MapNode {
  name: string;
  kind: NodeKind;
  calls: number;
  errors: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface MapEdge {
  edge: Edge;
  points: { x: number; y: number }[];
  /** Middle of the words on the line, and their room. */
  x: number;
  y: number;
  width: number;
}

export interface ServiceMap {
  nodes: MapNode[];
  edges: MapEdge[];
  width: number;
  height: number;
  /** Nodes that are not shown. */
  left_out: number;
  /** The service in the middle, if not all are shown. */
  focus: string | undefined;
}

const KINDS: Record<string, NodeKind> = { database: "database", messaging_system: "queue", virtual_node: "peer" };

/** Return the name and kind of every node: services without neighbours too. */
export function listNodes(services: Service[], edges: Edge[]): Map<string, NodeKind> {
  const nodes = new Map<string, NodeKind>(services.map((one) => [one.service, "service"]));
  for (const edge of edges) {
    if (!nodes.has(edge.server)) nodes.set(edge.server, KINDS[edge.connection] ?? "peer");
    if (!nodes.has(edge.client)) nodes.set(edge.client, edge.client === "user" ? "user" : "peer");
  }
  return nodes;
}

/** Return the nodes to show: all, or above the limit one service and its neighbours. */
export function chooseNodes(nodes: Map<string, NodeKind>, edges: Edge[], focus: string | undefined): { shown: Set<string>; focus: string | undefined } {
  const known = focus !== undefined && nodes.has(focus) ? focus : undefined;
  if (nodes.size <= MOST_NODES && known === undefined) return { shown: new Set(nodes.keys()), focus: undefined };
  const middle = known ?? edges[0]?.server ?? [...nodes.keys()][0]!;
  const shown = new Set([middle]);
  for (const edge of edges) {
    if (shown.size >= MOST_NODES) break;
    if (edge.client === middle) shown.add(edge.server);
    if (edge.server === middle) shown.add(edge.client);
  }
  return { shown, focus: middle };
}

export function layoutMap(services: Service[], edges: Edge[], wanted: string | undefined): ServiceMap {
  const kinds = listNodes(services, edges);
  const { shown, focus } = chooseNodes(kinds, edges, wanted);
  const visible = edges.filter((one) => shown.has(one.client) && shown.has(one.server) && one.client !== one.server);
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 20, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of shown) graph.setNode(name, { width: Math.max(LEAST_WIDTH, name.length * CHARACTER + 44), height: NODE_HEIGHT });
  for (const edge of visible) graph.setEdge(edge.client, edge.server, { ...LABEL, width: edge.errors > 0 ? 132 : 56 }, edgeName(edge));
  dagre.layout(graph);
  const size = graph.graph();
  return {
    nodes: [...shown].map((name) => ({ name, kind: kinds.get(name)!, ...sumCalls(name, services, edges), ...(graph.node(name) as Box) })),
    edges: visible.map((edge) => ({ edge, ...(graph.edge(edge.client, edge.server, edgeName(edge)) as Line) })),
    width: size.width ?? 0,
    height: size.height ?? 0,
    left_out: kinds.size - shown.size,
    focus,
  };
}

/** Return what tells parallel edges apart; the graph takes an empty name for none. */
function edgeName(edge: Edge): string {
  return edge.connection || "request";
}

interface Line {
  points: { x: number; y: number }[];
  x: number;
  y: number;
  width: number;
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function sumCalls(name: string, services: Service[], edges: Edge[]): { calls: number; errors: number } {
  const own = services.find((one) => one.service === name);
  if (own) return { calls: own.calls, errors: own.errors };
  const into = edges.filter((one) => one.server === name || (name === "user" && one.client === name));
  return { calls: into.reduce((sum, one) => sum + one.calls, 0), errors: into.reduce((sum, one) => sum + one.errors, 0) };
}

/** Return the path of an edge as SVG: a smooth line through its points. */
export function drawPath(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let text = `M${round(first.x)},${round(first.y)}`;
  for (let index = 0; index < rest.length - 1; index += 1) {
    const at = rest[index]!;
    const next = rest[index + 1]!;
    const end = index === rest.length - 2 ? next : { x: (at.x + next.x) / 2, y: (at.y + next.y) / 2 };
    text += `Q${round(at.x)},${round(at.y)} ${round(end.x)},${round(end.y)}`;
  }
  if (rest.length === 1) text += `L${round(rest[0]!.x)},${round(rest[0]!.y)}`;
  return text;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
