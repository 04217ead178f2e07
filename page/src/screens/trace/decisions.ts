/** Sampling decisions in words. */

import { plural } from "../../lib/format.ts";
import type { Decision } from "./trace_data.ts";

const WORDS: Record<string, string> = { sampled: "kept", not_sampled: "not kept", dropped: "dropped" };

export function describeDecision(decision: string): string {
  return WORDS[decision] ?? decision;
}

export function describeKind(one: Decision): string {
  if (one.kind === "late") return `${plural(one.late_spans, "late span")} arrived`;
  if (one.kind === "revised") return `decided again after ${plural(one.late_spans, "late span")}`;
  return "decided";
}

export interface DecisionGroup {
  selector: string;
  newest: Decision;
  revisions: Decision[];
}

/** Group decisions by selector, each with its newest revision. */
export function groupDecisions(decisions: Decision[]): DecisionGroup[] {
  const groups = new Map<string, Decision[]>();
  for (const one of decisions) groups.set(one.selector, [...(groups.get(one.selector) ?? []), one]);
  return [...groups].map(([selector, all]) => {
    const revisions = all.toSorted((one, other) => one.revision - other.revision);
    return { selector, newest: revisions[revisions.length - 1]!, revisions };
  });
}
