/** Downloads of results. Files are named by the page, never by the data. */

import { query, type Question, send } from "../../lib/api.ts";
import { csvCell } from "../../lib/format.ts";
import { isNumeric } from "./result_chart.ts";

export const FORMATS = ["csv", "jsonl", "json", "parquet", "arrow"] as const;
export type Format = (typeof FORMATS)[number];

/** Run a statement again without a limit of rows, and save its result. */
export async function download(question: Question, format: Format, signal: AbortSignal): Promise<void> {
  const { limit: _limit, ...whole } = question;
  const blob = format === "csv" ? await writeCsv(whole, signal) : await readBlob(whole, format, signal);
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = `neve-query.${format}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function readBlob(question: Question, format: Format, signal: AbortSignal): Promise<Blob> {
  const response = await send("/query", { method: "POST", body: { ...question, format }, signal, headers: { accept: "*/*" } });
  return response.blob();
}

/** Write CSV here, because texts that a spreadsheet would take for formulas must be quoted. */
async function writeCsv(question: Question, signal: AbortSignal): Promise<Blob> {
  const result = await query(question, signal);
  const lines = [result.columns.map((one) => csvCell(one.name)).join(",")];
  for (let row = 0; row < result.rows; row += 1) {
    lines.push(result.columns.map((column, index) => writeCell(result.data[index]![row], column.type)).join(","));
  }
  return new Blob([lines.join("\r\n"), "\r\n"], { type: "text/csv" });
}

function writeCell(value: unknown, type: string): string {
  if (value === null || value === undefined) return "";
  if (isNumeric(type) || typeof value === "boolean") return String(value);
  return csvCell(typeof value === "string" ? value : JSON.stringify(value));
}
