/** Bytes as a dump: the offset, sixteen bytes, and the same as text. */

const WIDTH = 16;

/** Return the lines of a dump. `hex` has two digits for each byte. */
export function dumpHex(hex: string): string {
  const lines: string[] = [];
  for (let at = 0; at < hex.length; at += 2 * WIDTH) {
    const pairs = hex.slice(at, at + 2 * WIDTH).match(/../g) ?? [];
    const text = pairs.map((pair) => printable(Number.parseInt(pair, 16))).join("");
    const halves = [pairs.slice(0, 8).join(" "), pairs.slice(8).join(" ")].join("  ");
    lines.push(`${(at / 2).toString(16).padStart(8, "0")}  ${halves.padEnd(3 * WIDTH)}  ${text}`);
  }
  return lines.join("\n");
}

function printable(code: number): string {
  return code >= 32 && code < 127 ? String.fromCharCode(code) : ".";
}
