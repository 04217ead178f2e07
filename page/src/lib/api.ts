/** The client of the API: errors with their hint, results as columns, at most three queries at a time. */

import type { ColumnsDocument, Question, ResultColumn, StatisticsDocument } from "./documents.ts";

export const PREFIX = "/api/v1";
const MOST_QUERIES = 3;

/** An error of the API, in its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly queryId: string | null = null,
    readonly limit: string | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export type { Question, ResultColumn as Column };
export type Statistics = StatisticsDocument;

/** A result as columns: `data[column][row]`. Integers beyond 2^53 are text. */
export interface Result {
  id: string;
  columns: ResultColumn[];
  data: unknown[][];
  rows: number;
  statistics: Statistics;
}

export interface Options {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Call the API and return its document. `path` begins after the prefix: "/jobs". */
export async function call<Document>(path: string, options: Options = {}): Promise<Document> {
  const response = await send(path, options);
  return (await response.json()) as Document;
}

/** Call the API and return the response itself, for downloads; errors are raised. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", "neve-client": "page", ...options.headers };
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(PREFIX + path, { method: options.method ?? "GET", headers, body, signal: options.signal });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, "unreachable", "the server does not answer", "it may be restarting: try again");
  }
  if (!response.ok) throw await readError(response);
  return response;
}

async function readError(response: Response): Promise<ApiError> {
  try {
    const { error, id } = await response.json();
    if (response.status === 401) dispatchEvent(new Event("neve-signed-out"));
    return new ApiError(response.status, error.code, error.message, error.hint, id, error.limit);
  } catch {
    return new ApiError(response.status, "failed", `the server answered ${response.status}`);
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * Run a statement. It waits while three others of this tab run, and ends when `signal` aborts.
 *
 * The autopilot does not learn from questions of the client `page`. Statements that a person wrote are of the client `sql`.
 */
export async function query(question: Question, signal?: AbortSignal, client: "page" | "sql" = "page"): Promise<Result> {
  return turn(signal, async () => {
    const options = { method: "POST", body: { ...question, format: "columns" }, signal, headers: { "neve-client": client } } as const;
    const document = await call<ColumnsDocument>("/query", options);
    if (document.error) {
      const { code, message, hint, limit } = document.error;
      throw new ApiError(500, code, message, hint, document.id, limit);
    }
    return joinPieces(document);
  });
}

function joinPieces(raw: ColumnsDocument): Result {
  const { id, columns = [], pieces = [], statistics } = raw;
  if (!statistics) throw new ApiError(0, "failed", "the result has no end", "try again", id);
  const data = columns.map((_, column) => {
    const parts = pieces.map((piece) => piece[column] ?? []);
    return parts.length === 1 ? parts[0]! : parts.flat(1);
  });
  return { id: id ?? "", columns, data, rows: data[0]?.length ?? 0, statistics };
}

/** Return the values of a column by its name. */
export function columnOf<Value = unknown>(result: Result, name: string): Value[] {
  const index = result.columns.findIndex((column) => column.name === name);
  return (index < 0 ? [] : result.data[index]) as Value[];
}

/** Return the rows of a small result as objects. */
export function rowsOf<Row>(result: Result): Row[] {
  return Array.from({ length: result.rows }, (_, row) =>
    Object.fromEntries(result.columns.map((column, index) => [column.name, result.data[index]![row]])),
  ) as Row[];
}

let running = 0;
const waiting: (() => void)[] = [];

/** Run a task when fewer than three others run; for calls that are queries of the server. */
export async function turn<Value>(signal: AbortSignal | undefined, task: () => Promise<Value>): Promise<Value> {
  while (running >= MOST_QUERIES) await new Promise<void>((resume) => waiting.push(resume));
  signal?.throwIfAborted();
  running += 1;
  try {
    return await task();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}
