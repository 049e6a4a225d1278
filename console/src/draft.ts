import type { Schemas } from "./api/client";

export type Rule = Schemas["RuleDocument"];

// Draft is a change of a rule set that another screen proposes. The Rules screen
// takes it, applies it to the current rules and shows the difference; nothing is
// saved before the operator says so.
export interface Draft {
  ruleSet: string;
  title: string;
  apply: (rules: Rule[]) => Rule[];
}

let proposed: Draft | undefined;

// propose keeps a draft for the Rules screen: then navigate to
// ["rules", draft.ruleSet].
export function propose(draft: Draft): void {
  proposed = draft;
}

// takeDraft returns the draft for a rule set, once.
export function takeDraft(ruleSet: string): Draft | undefined {
  const draft = proposed;
  if (draft?.ruleSet !== ruleSet) return undefined;
  proposed = undefined;
  return draft;
}
