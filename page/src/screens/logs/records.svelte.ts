/** Records of the list: pages of 1,000 by cursor, up to 100,000 held. */

import { ApiError, columnOf, isAbort, query, type Result, type Statistics } from "../../lib/api.ts";
import { type Condition } from "../../lib/search.ts";
import type { Period } from "../../lib/time.ts";

export const PAGE_ROWS = 1000;
export const MOST_ROWS = 100_000;
export const ROW_CHARACTERS = 2048;
const FIXED = ["timestamp", "record_id", "severity_number", "service_name", "message", "trace_id"];

export interface Wanted {
  condition: Condition;
  period: Period;
  isOldestFirst: boolean;
  /** Attributes that are columns of the list. */
  columns: string[];
}

/** Return the statement of one page; `after` is the last record of the page before. */
export function pageStatement(wanted: Wanted, isNext: boolean): string {
  const compare = wanted.isOldestFirst ? ">" : "<";
  const order = wanted.isOldestFirst ? "ASC" : "DESC";
  const conditions = [wanted.condition.sql, isNext ? `(timestamp ${compare} $after OR (timestamp = $after AND record_id ${compare} $after_id))` : ""];
  const where = conditions.filter(Boolean).join(" AND ");
  const extra = wanted.columns.map((_, index) => `, left(coalesce(attributes[$c${index}], resource_attrs[$c${index}]), ${ROW_CHARACTERS}) AS c${index}`);
  return (
    `SELECT timestamp, record_id, severity_number, service_name, left(message, ${ROW_CHARACTERS}) AS message, trace_id${extra.join("")} ` +
    `FROM logs${where ? ` WHERE ${where}` : ""} ORDER BY timestamp ${order}, record_id ${order} LIMIT ${PAGE_ROWS}`
  );
}

export class RecordList {
  count = $state(0);
  isComplete = $state(false);
  isLoadingMore = $state(false);
  error = $state.raw<ApiError | undefined>();
  statistics = $state.raw<Statistics | undefined>();
  queryId = $state("");
  readonly wanted: Wanted;
  #columns = new Map<string, unknown[]>();
  #signal: AbortSignal | undefined;

  constructor(wanted: Wanted) {
    this.wanted = wanted;
  }

  /** Load the first page. */
  async load(signal: AbortSignal): Promise<this> {
    this.#signal = signal;
    this.#add(await query(this.#question(false), signal));
    return this;
  }

  /** Load the next page when rows near the end are in sight. */
  async more(): Promise<void> {
    if (this.isLoadingMore || this.isComplete || this.count === 0 || this.error) return;
    this.isLoadingMore = true;
    try {
      this.#add(await query(this.#question(true), this.#signal));
    } catch (error) {
      if (!isAbort(error)) this.error = error instanceof ApiError ? error : new ApiError(0, "failed", String(error));
    }
    this.isLoadingMore = false;
  }

  retry(): void {
    this.error = undefined;
    void this.more();
  }

  get<Value = string | null>(row: number, name: string): Value {
    return this.#columns.get(name)?.[row] as Value;
  }

  /** Put records at the top: those of live tail. The oldest leave when too many are held. */
  prepend(rows: Record<string, unknown>[]): void {
    for (const name of [...FIXED, ...this.wanted.columns.map((_, index) => `c${index}`)]) {
      const held = this.#columns.get(name) ?? [];
      this.#columns.set(name, [...rows.map((row) => row[name] ?? null), ...held].slice(0, MOST_ROWS));
    }
    this.count = this.#columns.get("record_id")?.length ?? 0;
  }

  #question(isNext: boolean) {
    const { condition, period, columns } = this.wanted;
    const parameters: Condition["parameters"] = { ...condition.parameters };
    columns.forEach((name, index) => (parameters[`c${index}`] = name));
    if (isNext) {
      parameters.after = this.get(this.count - 1, "timestamp");
      parameters.after_id = this.get(this.count - 1, "record_id");
    }
    return { sql: pageStatement(this.wanted, isNext), parameters, ...period };
  }

  #add(result: Result): void {
    for (const column of result.columns) {
      const held = this.#columns.get(column.name) ?? [];
      this.#columns.set(column.name, held.length ? held.concat(columnOf(result, column.name)) : columnOf(result, column.name));
    }
    this.count += result.rows;
    this.isComplete = result.rows < PAGE_ROWS || this.count >= MOST_ROWS;
    this.statistics = this.count === result.rows ? result.statistics : sumStatistics(this.statistics!, result.statistics);
    this.queryId = result.id;
  }
}

function sumStatistics(before: Statistics, after: Statistics): Statistics {
  return { ...after, rows: before.rows + after.rows, seconds: before.seconds + after.seconds };
}
