/** Numbers in words: counts, bytes, durations and ages. */

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Format a count with separators: 12,345. A count that came as text keeps all its digits. */
export function formatCount(value: number | string | null | undefined): string {
  if (value === null || value === undefined || value === "") return "–";
  const text = String(value);
  if (/^-?\d+$/.test(text)) return text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: 2 });
}

/** Format a count in at most four characters: 1.2k, 45M. */
export function formatShort(value: number): string {
  const units = ["", "k", "M", "G", "T"];
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = size >= 10 || unit === 0 || Number.isInteger(size) ? 0 : 1;
  const fraction = unit === 0 && !Number.isInteger(size) ? 2 : digits;
  return `${value < 0 ? "-" : ""}${Number(size.toFixed(fraction))}${units[unit]}`;
}

/** Format a rate per second for a column of rates: 0.20, 1.41, 35, 1.2k. */
export function formatRate(value: number): string {
  return value < 9.995 ? value.toFixed(value > 0 && value < 0.005 ? 4 : 2) : formatShort(value < 100 ? Math.round(value * 10) / 10 : Math.round(value));
}

/** Format bytes in decimal units, as files and bills are counted. */
export function formatBytes(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "–";
  let size = Number(value);
  let unit = 0;
  while (size >= 999.5 && unit < BYTE_UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.5 ? Math.round(size) : Number(size.toPrecision(2))} ${BYTE_UNITS[unit]}`;
}

/** Format milliseconds: 120 µs, 4.2 ms, 1.5 s, 2 min 5 s, 3 h 10 min, 2 d 4 h. */
export function formatDuration(milliseconds: number | null | undefined): string {
  if (milliseconds === null || milliseconds === undefined || Number.isNaN(milliseconds)) return "–";
  if (milliseconds < 0) return `-${formatDuration(-milliseconds)}`;
  if (milliseconds === 0) return "0 ms";
  if (milliseconds < 0.001) return `${Math.round(milliseconds * 1e6)} ns`;
  if (milliseconds < 1) return `${trim(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${trim(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${trim(seconds)} s`;
  if (seconds < 3600) return pair(seconds, 60, "min", "s");
  if (seconds < 86_400) return pair(seconds / 60, 60, "h", "min");
  return pair(seconds / 3600, 24, "d", "h");
}

function trim(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

function pair(value: number, size: number, large: string, small: string): string {
  const rounded = Math.round(value);
  const rest = rounded % size;
  return `${Math.floor(rounded / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** Format an age in one unit: "8 s", "3 min", "2 h", "5 d". */
export function formatAge(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function formatDollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 0.0001) return `${value < 0 ? "> -" : "< "}$0.0001`;
  if (value !== 0 && Math.abs(value) < 0.01) return `$${value.toPrecision(2)}`;
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function formatPercent(share: number | null | undefined): string {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const percent = share * 100;
  return `${percent >= 10 || percent === 0 ? Math.round(percent) : Number(percent.toPrecision(2))} %`;
}

/**
 * Format the label of a partition by its values alone: `organization_id=acme/timestamp_day=2026-01-31/trace_id_bucket=7` is
 * "acme · 2026-01-31 · bucket 7". A value with a slash keeps it.
 */
export function formatPartition(label: string): string {
  if (!label) return "the whole table";
  const parts = label.split(/\/(?=[a-z][a-z0-9_.]*=)/).map((part) => {
    const [, name, value] = /^([a-z][a-z0-9_.]*)=(.*)$/s.exec(part) ?? [];
    if (name === undefined || value === undefined) return part;
    return name.endsWith("_bucket") ? `bucket ${value}` : value;
  });
  return parts.join(" · ");
}

/** Return a count with its noun: "1 file", "3 files". */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : nouns}`;
}

/** Cut a text at a number of characters, and say so by an ellipsis. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

/** Return a cell of CSV; one that a spreadsheet would take for a formula is quoted as text. */
export function csvCell(value: string): string {
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
