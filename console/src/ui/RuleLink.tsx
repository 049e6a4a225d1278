import { Anchor } from "@mantine/core";
import { href } from "../router";

// RuleLink names a rule and leads to it.
export function RuleLink({ ruleSet, rule }: { ruleSet: string; rule: string }) {
  const name = `${ruleSet} / ${rule}`;
  if (!/^[A-Za-z0-9._-]+$/.test(rule) || rule === "other") return <span className="breakable">{name}</span>; // no rule: all others together
  return (
    <Anchor size="sm" className="breakable" href={href(["rules", ruleSet], { rule })}>
      {name}
    </Anchor>
  );
}
