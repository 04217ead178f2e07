/** Documents of the API of services, and the calls that load them. */

import { call, turn } from "../../lib/api.ts";
import type { EdgeDocument, EdgesDocument, OperationDocument, ServiceDocument, ServicesDocument } from "../../lib/documents.ts";
import type { Period } from "../../lib/time.ts";

export type { EdgeDocument as Edge, OperationDocument as Operation, ServiceDocument as Service, ServicesDocument as Services };
export type Calls = Pick<EdgeDocument, "calls" | "errors" | "p50_ms" | "p95_ms" | "p99_ms">;

/** Share of failed calls that is shown in red. With any failure in red, the map of a large shop is red everywhere. */
const ALARMING = 0.01;

export function isFailing(one: { calls: number; errors: number }): boolean {
  return one.errors > 0 && one.errors >= ALARMING * one.calls;
}

function get<Document>(path: string, params: Record<string, string | undefined>, signal: AbortSignal): Promise<Document> {
  const given = Object.entries(params).filter((pair): pair is [string, string] => Boolean(pair[1]));
  return turn(signal, () => call<Document>(`${path}?${new URLSearchParams(given)}`, { signal }));
}

export function loadServices(period: Period, service: string | undefined, signal: AbortSignal): Promise<ServicesDocument> {
  return get("/services", { ...period, service }, signal);
}

export type Edges = EdgesDocument & { isEstimated: boolean };

/** Load the calls between services. Counts are those that the stored spans represent, if a sampler left others out. */
export async function loadEdges(period: Period, signal: AbortSignal): Promise<Edges> {
  const found = await get<EdgesDocument>("/services/edges", { ...period }, signal);
  return {
    ...found,
    isEstimated: found.edges.some((edge) => edge.estimated_calls !== edge.calls),
    edges: found.edges.map((edge) => ({ ...edge, calls: edge.estimated_calls, errors: edge.estimated_errors })),
  };
}
