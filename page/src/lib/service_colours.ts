/** The colours of services in this browser, by organization. They are no secret: names of services and numbers. */

import { SERIES, ServiceColours } from "./colour.ts";
import { session } from "./session.svelte.ts";

const found = new Map<string, ServiceColours>();

function coloursOf(organization: string): ServiceColours {
  let colours = found.get(organization);
  if (!colours) {
    const key = `neve-colours-${organization}`;
    colours = new ServiceColours(read(key), (given) => write(key, given));
    found.set(organization, colours);
  }
  return colours;
}

/** Return what was stored; a text that is something else gives nothing. */
function read(key: string): [string, number][] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    return (stored as [string, number][]).filter(([name, index]) => typeof name === "string" && Number.isInteger(index) && index >= 0 && index < SERIES);
  } catch {
    return [];
  }
}

function write(key: string, given: [string, number][]): void {
  try {
    localStorage.setItem(key, JSON.stringify(given));
  } catch {
    // without storage the colours last until the page is loaded again
  }
}

/** Return the token of a service's colour, the same on every screen. */
export function serviceToken(name: string): string {
  return `--series-${coloursOf(session.identity?.organization ?? "").indexOf(name)}`;
}

export function serviceColour(name: string): string {
  return `var(${serviceToken(name)})`;
}
