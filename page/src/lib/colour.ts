/** Colours that follow from names, so that a service has the same colour on every screen. */

export const SERIES = 12;

function hashOf(name: string): number {
  let hash = 2166136261;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 16777619) >>> 0;
  }
  return hash % SERIES;
}

/** Return the token of a name's colour: red is not among them, it is for errors alone. */
export function colourToken(name: string): string {
  return `--series-${hashOf(name)}`;
}

/**
 * Colours of services: the one of the name's hash, or the next that no other service has.
 *
 * A colour stays once it is given. `save` keeps those of the services that have been seen, so that all screens agree,
 * also after a reload. With more services than colours, others share theirs.
 */
export class ServiceColours {
  #given: Map<string, number>;
  #save: (given: [string, number][]) => void;

  constructor(given: Iterable<[string, number]> = [], save: (given: [string, number][]) => void = () => undefined) {
    this.#given = new Map([...given].slice(0, SERIES));
    this.#save = save;
  }

  indexOf(name: string): number {
    const known = this.#given.get(name);
    const preferred = hashOf(name);
    if (known !== undefined || this.#given.size >= SERIES) return known ?? preferred;
    const taken = new Set(this.#given.values());
    let index = preferred;
    while (taken.has(index)) index = (index + 1) % SERIES;
    this.#given.set(name, index);
    this.#save([...this.#given]);
    return index;
  }
}

/** Return the value of a token, for canvas, which knows no variables. */
export function readToken(token: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(token).trim();
}

export const SEVERITIES = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Return the range of a severity number of OpenTelemetry: 1 to 4 are trace, 21 to 24 fatal. */
export function severityOf(number: number | null | undefined): Severity | "unset" {
  if (!number || number < 1 || number > 24) return "unset";
  return SEVERITIES[Math.floor((number - 1) / 4)]!;
}
