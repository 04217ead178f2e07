/** Run by `node --test`: times, formats and search lines, which are pure. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { colourToken, SERIES, ServiceColours, severityOf } from "../src/lib/colour.ts";
import { csvCell, formatAge, formatBytes, formatCount, formatDuration, formatPartition, formatRate, formatShort, plural } from "../src/lib/format.ts";
import { addFilter, chosenValues, parseSearch, removeTerm, toCondition } from "../src/lib/search.ts";
import { bucketSeconds, describeRange, exactTime, formatTime, moveRange, parseTyped, resolveRange, toIso } from "../src/lib/time.ts";

test("times keep every digit, in any zone", () => {
  assert.equal(formatTime("1770026400123456789", "UTC", 9), "2026-02-02 10:00:00.123456789");
  assert.equal(formatTime("2026-02-02T10:00:00.123456+00:00", "Asia/Tokyo", 6), "2026-02-02 19:00:00.123456");
  assert.equal(exactTime("1770026400123456789"), "2026-02-02T10:00:00.123456789Z");
  assert.equal(exactTime("-1"), "1969-12-31T23:59:59.999999999Z");
  assert.equal(formatTime("no time", "UTC"), "no time");
});

test("a time that was typed as it is shown is that time", () => {
  for (const zone of ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"]) {
    for (let hour = 0; hour < 24 * 400; hour += 7) {
      const at = 1_760_000_000_000 + hour * 3_600_000;
      const typed = parseTyped(formatTime(toIso(at), zone), zone);
      assert.equal(formatTime(toIso(typed), zone), formatTime(toIso(at), zone));
    }
  }
  assert.ok(Number.isNaN(parseTyped("yesterday", "UTC")));
});

test("ranges are relative until they are moved", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  assert.deepEqual(resolveRange({ from: "-1h", to: "now" }, now), { since: "2026-01-01T11:00:00.000Z", until: "2026-01-01T12:00:00.000Z" });
  assert.deepEqual(moveRange({ from: "-1h", to: "now" }, -1, now), { from: "2026-01-01T10:00:00.000Z", to: "2026-01-01T11:00:00.000Z" });
  assert.equal(describeRange({ from: "-3h", to: "now" }, "UTC"), "last 3 hours");
  assert.deepEqual(resolveRange({ from: "x", to: "y" }, now), resolveRange({ from: "-1h", to: "now" }, now));
});

test("buckets are never more than wanted", () => {
  for (let minutes = 1; minutes < 1e6; minutes = Math.ceil(minutes * 1.7)) {
    const period = { since: toIso(0), until: toIso(minutes * 60_000) };
    assert.ok((minutes * 60) / bucketSeconds(period, 120) <= 120);
  }
});

test("numbers are short and lose nothing that matters", () => {
  assert.equal(formatCount("9223372036854775807"), "9,223,372,036,854,775,807");
  assert.deepEqual([999, 1000, 1_250_000, 0].map(formatShort), ["999", "1k", "1.3M", "0"]);
  assert.deepEqual([999, 1500, 2e9].map(formatBytes), ["999 B", "1.5 kB", "2 GB"]);
  assert.deepEqual([0, 0.0005, 0.25, 12.345, 1500, 125_000, 11_400_000].map(formatDuration), ["0 ms", "500 ns", "250 µs", "12.3 ms", "1.5 s", "2 min 5 s", "3 h 10 min"]);
  assert.deepEqual([1000, 120_000, 7_200_000].map(formatAge), ["1 s", "2 min", "2 h"]);
  assert.deepEqual([plural(1, "file"), plural(2, "file")], ["1 file", "2 files"]);
  assert.equal(csvCell('=1+1,"x"'), `"'=1+1,""x"""`);
});

test("a name has one colour, and red is none of them", () => {
  assert.equal(colourToken("payment"), colourToken("payment"));
  assert.match(colourToken("cart"), /^--series-\d+$/);
  assert.deepEqual([0, 1, 9, 17, 24, 25].map(severityOf), ["unset", "trace", "info", "error", "fatal", "unset"]);
});

test("values of a search never become SQL", () => {
  const hostile = `'; DROP TABLE logs; --`;
  const line = addFilter("", "service", hostile);
  const condition = toCondition(parseSearch(line));
  assert.equal(condition.sql, "service_name = $v0");
  assert.deepEqual(condition.parameters, { v0: hostile });
  assert.equal(toCondition(parseSearch("100%_a")).parameters.v0, "%100\\%\\_a%");
});

test("a search line is words, filters and their opposites", () => {
  const { sql, parameters } = toCondition(parseSearch('timeout -health service=cart service=payment severity>=warn http.route!="/x y"'));
  assert.equal(
    sql,
    "(service_name = $v2 OR service_name = $v3) AND message ILIKE $v0 ESCAPE '\\' AND NOT coalesce(message ILIKE $v1 ESCAPE '\\', false) AND severity_number >= 13 " +
      "AND NOT coalesce(coalesce(attributes[$k5], resource_attrs[$k5]) = $v5, false)",
  );
  assert.equal(parameters.v5, "/x y");
  assert.equal(toCondition(parseSearch("where a = 1")).sql, "(a = 1)");
  assert.equal(toCondition(parseSearch("")).sql, "");
});

test("a filter is added once, and leaves with a second click", () => {
  for (const value of ["cart", "a b", 'say "x"', "\\", "-x", "a=b", ""]) {
    const added = addFilter("word", "service", value);
    assert.deepEqual(chosenValues(added, "service"), [value]);
    assert.equal(addFilter(added, "service", value), "word");
    assert.deepEqual(chosenValues(addFilter(added, "service", value, true), "service"), []);
  }
  const line = "a service=cart b";
  assert.equal(removeTerm(line, parseSearch(line).terms[1]!), "a b");
});

test("services have different colours as long as there are enough, and keep them", () => {
  const names = Array.from({ length: SERIES }, (_, index) => `service-${index * 7}`);
  let saved: [string, number][] = [];
  const colours = new ServiceColours([], (given) => (saved = given));
  const first = names.map((name) => colours.indexOf(name));
  assert.equal(new Set(first).size, SERIES);
  assert.deepEqual(names.map((name) => colours.indexOf(name)), first);
  const again = new ServiceColours(saved);
  assert.deepEqual(names.toReversed().map((name) => again.indexOf(name)), first.toReversed());
  assert.equal(`--series-${again.indexOf("one more")}`, colourToken("one more"));
  assert.equal(new ServiceColours([["checkout", 3]]).indexOf("checkout"), 3);
});

test("rates of a column have the same digits", () => {
  assert.deepEqual([0, 0.001, 0.2, 1.414, 35.27, 1234].map(formatRate), ["0.00", "0.0010", "0.20", "1.41", "35.3", "1.2k"]);
});

test("a partition is named by its values", () => {
  assert.equal(formatPartition("organization_id=acme/timestamp_day=2026-01-31/trace_id_bucket=7"), "acme · 2026-01-31 · bucket 7");
  assert.equal(formatPartition("organization_id=a/b=c"), "a · c");
  assert.equal(formatPartition("organization_id=a/B"), "a/B");
  assert.equal(formatPartition(""), "the whole table");
  assert.equal(formatPartition("no name"), "no name");
});
