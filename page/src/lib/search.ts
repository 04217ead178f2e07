/**
 * The search line of Logs: words, `key = value`, or SQL after `where`.
 *
 * Values never become part of the SQL: they are parameters. A key that is no column is an attribute of the record or of
 * its resource.
 */

import { SEVERITIES } from "./colour.ts";
import type { Period } from "./time.ts";

export type Operator = "=" | "!=" | ">=" | "~";

export interface Term {
  kind: "word" | "filter";
  key: string;
  operator: Operator;
  value: string;
  isNegated: boolean;
  /** Place of the term in the line. */
  start: number;
  end: number;
}

export interface Search {
  terms: Term[];
  /** A condition in SQL, as the user wrote it. */
  sql: string;
}

export interface Condition {
  sql: string;
  parameters: Record<string, string | number>;
}

const COLUMNS: Record<string, string> = {
  service: "service_name",
  service_name: "service_name",
  message: "message",
  event: "event_name",
  event_name: "event_name",
  scope: "scope_name",
  scope_name: "scope_name",
  severity_text: "severity_text",
  trace: "trace_id",
  trace_id: "trace_id",
  span: "span_id",
  span_id: "span_id",
  record_id: "record_id",
};
const IDS = new Set(["trace_id", "span_id", "record_id"]);
const TOKEN = /(-?)(?:([A-Za-z_][\w.@/-]*?)\s*(!=|>=|=|~)\s*)?("(?:[^"\\]|\\.)*"|[^\s"]+)/g;

/** Parse a search line. Any text is a search: what is no filter is a word. */
export function parseSearch(line: string): Search {
  const where = /^\s*where\s+/i.exec(line);
  if (where) return { terms: [], sql: line.slice(where[0].length).trim() };
  const terms: Term[] = [];
  for (const match of line.matchAll(TOKEN)) {
    const [text, minus, key, operator, raw] = match;
    const value = unquote(raw ?? "");
    if (!key && (value === "" || value === "AND")) continue;
    terms.push({
      kind: key ? "filter" : "word",
      key: key ?? "message",
      operator: (operator as Operator | undefined) ?? "~",
      value,
      isNegated: minus === "-" || operator === "!=",
      start: match.index,
      end: match.index + text.length,
    });
  }
  return { terms, sql: "" };
}

function unquote(text: string): string {
  return text.startsWith('"') && text.endsWith('"') && text.length > 1 ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text;
}

function quote(text: string): string {
  return /^[^\s"\\=!~>-][^\s"\\]*$/.test(text) ? text : `"${text.replace(/(["\\])/g, "\\$1")}"`;
}

/** Return the condition of a search: filters of the same key are alternatives, everything else must hold. */
export function toCondition(search: Search): Condition {
  if (search.sql) return { sql: `(${search.sql})`, parameters: {} };
  const parameters: Condition["parameters"] = {};
  const alternatives = new Map<string, string[]>();
  const required: string[] = [];
  search.terms.forEach((term, index) => {
    const sql = termCondition(term, index, parameters);
    if (term.isNegated) required.push(`NOT coalesce(${sql}, false)`);
    else if (term.kind === "filter" && term.operator === "=") alternatives.set(term.key, [...(alternatives.get(term.key) ?? []), sql]);
    else required.push(sql);
  });
  const grouped = [...alternatives.values()].map((group) => (group.length > 1 ? `(${group.join(" OR ")})` : group[0]!));
  return { sql: [...grouped, ...required].join(" AND "), parameters };
}

/** Return the parameters of calls that count the records of a condition. */
export function countParams(condition: Condition, period: Period): Record<string, string> {
  return { table: "logs", where: condition.sql, parameters: JSON.stringify(condition.parameters), ...period };
}

function termCondition(term: Term, index: number, parameters: Condition["parameters"]): string {
  const value = `v${index}`;
  if (term.key === "severity") return severityCondition(term);
  const column = COLUMNS[term.key];
  const expression = column ?? attributeExpression(`k${index}`);
  if (!column) parameters[`k${index}`] = term.key;
  if (column && IDS.has(column)) {
    parameters[value] = term.value.toLowerCase();
    return `${column} = $${value}`;
  }
  if (term.operator === "~") {
    parameters[value] = `%${term.value.replace(/[\\%_]/g, "\\$&")}%`;
    return `${expression} ILIKE $${value} ESCAPE '\\'`;
  }
  parameters[value] = term.value;
  return term.operator === ">=" ? `TRY_CAST(${expression} AS DOUBLE) >= TRY_CAST($${value} AS DOUBLE)` : `${expression} = $${value}`;
}

function attributeExpression(parameter: string): string {
  return `coalesce(attributes[$${parameter}], resource_attrs[$${parameter}])`;
}

function severityCondition(term: Term): string {
  const wanted = term.value.toLowerCase();
  if (wanted === "unset") return "coalesce(severity_number, 0) NOT BETWEEN 1 AND 24";
  const index = SEVERITIES.findIndex((name) => name === wanted);
  const first = index < 0 ? Number(term.value) || 0 : index * 4 + 1;
  if (term.operator === ">=") return `severity_number >= ${first}`;
  return `severity_number BETWEEN ${first} AND ${index < 0 ? first : first + 3}`;
}

/** Return the line with a filter; the same filter is not added twice, and its opposite leaves. */
export function addFilter(line: string, key: string, value: string, isNegated = false): string {
  const search = parseSearch(line);
  if (search.sql) return `${key}${isNegated ? "!=" : "="}${quote(value)}`;
  const same = search.terms.find((term) => term.kind === "filter" && term.key === key && term.value === value);
  const rest = same ? removeTerm(line, same) : line.trim();
  if (same && same.isNegated === isNegated) return rest;
  const text = `${key}${isNegated ? "!=" : "="}${quote(value)}`;
  return rest ? `${rest} ${text}` : text;
}

export function removeTerm(line: string, term: Term): string {
  return `${line.slice(0, term.start)}${line.slice(term.end)}`.replace(/\s+/g, " ").trim();
}

/** Return the values that a line filters a key for. */
export function chosenValues(line: string, key: string): string[] {
  return parseSearch(line).terms.flatMap((term) => (term.kind === "filter" && term.key === key && term.operator === "=" && !term.isNegated ? [term.value] : []));
}
