/** The path of an attempt: stages that it reached, the one where it is, and those that are left. */

export interface Stop {
  name: string;
  state: "done" | "here" | "ended" | "left";
  words: string;
}

interface Walked {
  stage: string;
  steps: { stage: string }[];
  outcome: unknown;
}

const STAGES = ["recommended", "staged", "canary", "proposed", "merged"];
const WORDS = { done: "reached", here: "now", ended: "ended here", left: "not reached" };

export function pathOf(attempt: Walked): Stop[] {
  const reached = new Set(attempt.steps.map((step) => step.stage));
  const isEnded = ["rolled_back", "failed"].includes(attempt.stage);
  const place = STAGES.indexOf(attempt.stage);
  const found = STAGES.filter((stage, index) => reached.has(stage) || (!isEnded && index > place)).map((stage): [string, Stop["state"]] => {
    if (stage === attempt.stage) return [stage, attempt.outcome ? "done" : "here"];
    return [stage, reached.has(stage) ? "done" : "left"];
  });
  if (isEnded) found.push([attempt.stage === "failed" ? "failed" : "rolled back", "ended"]);
  else found.push(["measured", attempt.outcome ? "done" : "left"]);
  return found.map(([name, state]) => ({ name, state, words: WORDS[state] }));
}
