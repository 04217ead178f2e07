/** Times, ranges and zones. Times are text: a number of JavaScript has no room for nanoseconds. */

export type Range = {
  from: string;
  to: string;
};

export interface Period {
  since: string;
  until: string;
}

export const UTC = "UTC";
export const NOW = "now";
export const DEFAULT_RANGE: Range = { from: "-1h", to: NOW };
export const RANGES = ["-5m", "-15m", "-1h", "-3h", "-12h", "-24h", "-3d", "-7d", "-30d"];

const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const UNIT_WORDS: Record<string, string> = { s: "second", m: "minute", h: "hour", d: "day" };
const RELATIVE = /^-(\d{1,6})([smhd])$/;
const TIME = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(?:Z|\+00:00)?$/;

/** Return the milliseconds since 1970 of one end of a range; NaN for a text that is no time. */
export function resolveTime(text: string, now: number): number {
  if (text === NOW) return now;
  const relative = RELATIVE.exec(text);
  if (relative) return now - Number(relative[1]) * UNITS[relative[2] as string]!;
  return Date.parse(/[Zz]$|[+-]\d{2}:\d{2}$/.test(text) ? text : `${text}Z`);
}

/** Return the two times of a range; a range that makes no sense is the default one. */
export function resolveRange(range: Range, now: number): Period {
  const since = resolveTime(range.from, now);
  const until = resolveTime(range.to, now);
  if (!(since < until)) return resolveRange(DEFAULT_RANGE, now);
  return { since: toIso(since), until: toIso(until) };
}

export function toIso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

export function isRelative(range: Range): boolean {
  return range.to === NOW && RELATIVE.test(range.from);
}

/** Return a range in words: "last 3 hours", or its two times. */
export function describeRange(range: Range, zone: string): string {
  const relative = RELATIVE.exec(range.from);
  if (range.to === NOW && relative) {
    const count = Number(relative[1]);
    const unit = UNIT_WORDS[relative[2] as string];
    return count === 1 ? `last ${unit}` : `last ${count} ${unit}s`;
  }
  const end = range.to === NOW ? "now" : formatTime(endText(range.to), zone);
  return `${range.from.startsWith("-") ? range.from : formatTime(endText(range.from), zone)} to ${end}`;
}

function endText(text: string): string {
  const time = resolveTime(text, 0);
  return Number.isNaN(time) ? text : toIso(time);
}

/** Return the range moved by its own length: -1 to the past, 1 to the future. */
export function moveRange(range: Range, direction: -1 | 1, now: number): Range {
  const period = resolveRange(range, now);
  const since = Date.parse(period.since);
  const until = Date.parse(period.until);
  const step = (until - since) * direction;
  return { from: toIso(since + step), to: toIso(until + step) };
}

/** Split a time of the API (RFC 3339 in UTC, or nanoseconds since 1970) into milliseconds and the digits of a second. */
export function splitTime(text: string): { milliseconds: number; digits: string } {
  if (/^-?\d+$/.test(text)) {
    const nanoseconds = BigInt(text);
    const rest = ((nanoseconds % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
    const seconds = (nanoseconds - rest) / 1_000_000_000n;
    return { milliseconds: Number(seconds) * 1000, digits: rest.toString().padStart(9, "0") };
  }
  const match = TIME.exec(text);
  if (!match) return { milliseconds: NaN, digits: "" };
  return { milliseconds: Date.parse(`${match[1]}T${match[2]}Z`), digits: (match[3] ?? "").padEnd(6, "0") };
}

const formatters = new Map<string, Intl.DateTimeFormat>();

function formatter(zone: string): Intl.DateTimeFormat {
  let found = formatters.get(zone);
  if (!found) {
    found = new Intl.DateTimeFormat("en-CA", {
      timeZone: zone,
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    });
    formatters.set(zone, found);
  }
  return found;
}

/** Format a time in a zone, with as many digits of the second as asked for: "2026-01-01 13:00:00.123". */
export function formatTime(text: string, zone: string, digits = 0): string {
  const { milliseconds, digits: fraction } = splitTime(text);
  if (Number.isNaN(milliseconds)) return text;
  const parts: Record<string, string> = {};
  for (const part of formatter(zone).formatToParts(milliseconds)) parts[part.type] = part.value;
  const whole = `${parts.year}-${parts.month}-${parts.day} ${parts.hour}:${parts.minute}:${parts.second}`;
  return digits > 0 ? `${whole}.${fraction.padEnd(digits, "0").slice(0, digits)}` : whole;
}

/** Format the time of day alone. */
export function formatClock(text: string, zone: string, digits = 3): string {
  return formatTime(text, zone, digits).slice(11);
}

/** Return a time in ISO 8601 with all the digits that it has, in UTC: the text of a tooltip. */
export function exactTime(text: string): string {
  const { milliseconds, digits } = splitTime(text);
  if (Number.isNaN(milliseconds)) return text;
  return `${new Date(milliseconds).toISOString().slice(0, 19)}.${digits.padEnd(9, "0")}Z`;
}

/** Return the IANA names that the browser knows, or UTC for a name that it does not know. */
export function checkZone(zone: string | undefined): string {
  if (!zone) return UTC;
  try {
    formatter(zone);
    return zone;
  } catch {
    return UTC;
  }
}

export function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || UTC;
}

/** Return the milliseconds of a time that was typed as it is shown, in a zone; NaN if it is none. */
export function parseTyped(text: string, zone: string): number {
  const match = /^(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2}))?)?$/.exec(text.trim());
  if (!match) return NaN;
  const [, year, month, day, hour = "00", minute = "00", second = "00"] = match;
  const wanted = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (Number.isNaN(wanted)) return NaN;
  // The offset of a zone depends on the time: two steps reach it, except in the hour that a change of clocks leaves out.
  let guess = wanted;
  for (let step = 0; step < 2; step += 1) guess += wanted - Date.parse(`${formatTime(toIso(guess), zone).replace(" ", "T")}Z`);
  return guess;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** Return the seconds of a bucket so that a period has at most `most` of them. */
export function bucketSeconds(period: Period, most: number): number {
  const seconds = (Date.parse(period.until) - Date.parse(period.since)) / 1000;
  return STEPS.find((step) => seconds / step <= most) ?? Math.ceil(seconds / most / 86400) * 86400;
}
