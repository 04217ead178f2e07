/** Bars of a trace on a canvas: times to pixels, and the overview of all spans. */

import { readToken } from "../../lib/colour.ts";
import { serviceToken } from "../../lib/service_colours.ts";
import { formatDuration } from "../../lib/format.ts";
import type { Segment } from "./critical_path.ts";
import type { TraceLayout } from "./layout.ts";

/** Part of the trace in sight, in nanoseconds after its start. */
export interface TimeView {
  from: number;
  to: number;
}

export interface Palette {
  services: string[];
  bad: string;
  text: string;
  muted: string;
  line: string;
  surface: string;
  selected: string;
}

export function readPalette(services: string[]): Palette {
  const token = (name: string): string => readToken(`--${name}`);
  return {
    services: services.map((name) => readToken(serviceToken(name))),
    bad: token("bad"),
    text: token("text"),
    muted: token("muted"),
    line: token("line"),
    surface: token("surface"),
    selected: token("selected"),
  };
}

/** Set the size of a canvas for the screen's density, and return its context, in pixels of CSS. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const density = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * density));
  canvas.height = Math.max(1, Math.round(height * density));
  const context = canvas.getContext("2d");
  context?.setTransform(density, 0, 0, density, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

/** Return the pixels of a time; what is outside the view is cut near its edges. */
export function toPixels(time: number, view: TimeView, width: number): number {
  const share = (time - view.from) / (view.to - view.from);
  return Math.max(-10, Math.min(width + 10, share * width));
}

/** Return round times for an axis, about `most` of them. */
export function listTicks(view: TimeView, most: number): number[] {
  const span = view.to - view.from;
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const ticks: number[] = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to && ticks.length < 50; time += step) ticks.push(time);
  return ticks;
}

export interface BarsInput {
  layout: TraceLayout;
  rows: Int32Array;
  view: TimeView;
  palette: Palette;
  service: number[];
  status: number[];
  /** Segments of the critical path by span. */
  path: Map<number, Segment[]>;
  /** Times of logs by span. */
  marks: Map<number, number[]>;
}

export interface Window {
  top: number;
  width: number;
  height: number;
  header: number;
  rowHeight: number;
}

/** Draw the axis, and a bar for each row in sight. */
export function drawBars(context: CanvasRenderingContext2D, input: BarsInput, place: Window): void {
  const { view, palette } = input;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  drawAxis(context, view, palette, place);
  context.save();
  context.beginPath();
  context.rect(0, place.header, place.width, place.height - place.header);
  context.clip();
  const first = Math.max(0, Math.floor(place.top / place.rowHeight));
  const last = Math.min(input.rows.length, Math.ceil((place.top + place.height) / place.rowHeight));
  for (let row = first; row < last; row += 1) drawBar(context, input, place, row);
  context.restore();
}

function drawAxis(context: CanvasRenderingContext2D, view: TimeView, palette: Palette, place: Window): void {
  context.fillStyle = palette.surface; // the axis is in the place of the column's name
  context.fillRect(0, 0, place.width, place.header - 1);
  for (const time of listTicks(view, place.width / 110)) {
    const x = Math.round(toPixels(time, view, place.width)) + 0.5;
    context.strokeStyle = palette.line;
    context.beginPath();
    context.moveTo(x, place.header);
    context.lineTo(x, place.height);
    context.stroke();
    context.fillStyle = palette.muted;
    const words = formatDuration(time / 1e6);
    context.fillText(words, Math.min(x + 3, place.width - context.measureText(words).width - 2), place.header / 2);
  }
}

function drawBar(context: CanvasRenderingContext2D, input: BarsInput, place: Window, row: number): void {
  const { layout, view, palette } = input;
  const span = input.rows[row]!;
  const y = place.header + row * place.rowHeight - place.top;
  const [early, late] = [layout.start[span]!, layout.end[span]!].sort((one, other) => one - other) as [number, number];
  const left = toPixels(early, view, place.width);
  const right = Math.max(left + 2, toPixels(late, view, place.width));
  const middle = y + place.rowHeight / 2;
  context.fillStyle = palette.services[input.service[span]!] ?? palette.muted;
  context.fillRect(left, middle - 5, right - left, 10);
  if (input.status[span] === 2) {
    context.fillStyle = palette.bad;
    context.fillRect(left, middle - 7, right - left, 2);
    context.fillRect(left, middle + 5, right - left, 2);
  }
  context.fillStyle = palette.text;
  for (const segment of input.path.get(span) ?? []) {
    const from = toPixels(segment.start, view, place.width);
    context.fillRect(from, middle - 1, Math.max(1, toPixels(segment.end, view, place.width) - from), 2);
  }
  for (const time of input.marks.get(span) ?? []) drawMark(context, toPixels(time, view, place.width), middle, palette);
  drawLabel(context, input, place, { left, right, middle, duration: layout.end[span]! - layout.start[span]! });
}

function drawMark(context: CanvasRenderingContext2D, x: number, y: number, palette: Palette): void {
  context.fillStyle = palette.surface;
  context.strokeStyle = palette.text;
  context.beginPath();
  context.moveTo(x, y - 4);
  context.lineTo(x + 4, y);
  context.lineTo(x, y + 4);
  context.lineTo(x - 4, y);
  context.closePath();
  context.fill();
  context.stroke();
}

function drawLabel(
  context: CanvasRenderingContext2D,
  { palette }: BarsInput,
  place: Window,
  bar: { left: number; right: number; middle: number; duration: number },
): void {
  if (bar.right < 0 || bar.left > place.width) return;
  const words = formatDuration(bar.duration / 1e6);
  const wide = context.measureText(words).width;
  context.fillStyle = palette.muted;
  if (bar.right + wide + 8 < place.width) context.fillText(words, bar.right + 4, bar.middle);
  else if (bar.left - wide - 4 > 0) context.fillText(words, bar.left - wide - 4, bar.middle);
}

/** Draw all spans of a trace: a line each, errors above the others. */
export function drawOverview(
  context: CanvasRenderingContext2D,
  layout: TraceLayout,
  columns: { service: number[]; status: number[] },
  palette: Palette,
  size: { width: number; height: number },
): void {
  const whole = { from: layout.first, to: Math.max(layout.last, layout.first + 1) };
  const step = size.height / Math.max(1, layout.count);
  const thick = Math.max(1, Math.min(4, step - 0.5));
  // Of many spans those that share a line and a colour are drawn once, as far as they reach together.
  const lines = new Map<number, [number, number]>();
  for (let row = 0; row < layout.count; row += 1) {
    const span = layout.order[row]!;
    const colour = columns.status[span] === 2 ? palette.services.length : columns.service[span]!;
    const y = step >= 1 ? row : Math.floor(row * step);
    const left = toPixels(Math.min(layout.start[span]!, layout.end[span]!), whole, size.width);
    const right = Math.max(left + 1, toPixels(Math.max(layout.start[span]!, layout.end[span]!), whole, size.width));
    const key = y * (palette.services.length + 1) + colour;
    const known = lines.get(key);
    if (known) {
      known[0] = Math.min(known[0], left);
      known[1] = Math.max(known[1], right);
    } else {
      lines.set(key, [left, right]);
    }
  }
  for (const [key, [left, right]] of lines) {
    const colour = key % (palette.services.length + 1);
    const y = Math.floor(key / (palette.services.length + 1)) * (step >= 1 ? step : 1);
    context.fillStyle = palette.services[colour] ?? palette.bad;
    context.fillRect(left, y, right - left, thick);
  }
}
