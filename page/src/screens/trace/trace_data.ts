/** Documents of the API of traces, and the calls that load them. */

import { call, turn } from "../../lib/api.ts";
import type { DecisionDocument, DecisionsDocument, LogDocument, SpanDocument, SpansDocument, TraceDocument, TraceLogsDocument } from "../../lib/documents.ts";

export type {
  DecisionDocument as Decision,
  DecisionsDocument as Decisions,
  LogDocument as TraceLog,
  SpanDocument,
  TraceDocument,
  TraceLogsDocument as TraceLogs,
};

export const KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"];
export const STATUSES = ["unset", "ok", "error"];

function get<Document>(path: string, signal: AbortSignal): Promise<Document> {
  return turn(signal, () => call<Document>(path, { signal }));
}

export function loadTrace(id: string, signal: AbortSignal): Promise<TraceDocument> {
  return get(`/traces/${encodeURIComponent(id)}`, signal);
}

export function loadTraceLogs(id: string, signal: AbortSignal): Promise<TraceLogsDocument> {
  return get(`/traces/${encodeURIComponent(id)}/logs`, signal);
}

export function loadDecisions(id: string, signal: AbortSignal): Promise<DecisionsDocument> {
  return get(`/traces/${encodeURIComponent(id)}/decisions`, signal);
}

export function loadSpan(id: string, span: string, signal: AbortSignal): Promise<SpansDocument> {
  return get(`/traces/${encodeURIComponent(id)}/spans/${encodeURIComponent(span)}`, signal);
}
