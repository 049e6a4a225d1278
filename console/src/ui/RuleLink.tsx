import { Anchor, Badge } from "@mantine/core";
import { href } from "../router";

// RuleLink names a rule and leads to it, in two lines if the names are long. A shadow rule is marked.
export function RuleLink({ ruleSet, rule, shadow }: { ruleSet: string; rule: string; shadow?: boolean }) {
  const name = `${ruleSet} / ${rule}`;
  if (!/^[A-Za-z0-9._-]+$/.test(rule) || rule === "other") return <span className="breakable">{name}</span>; // no rule: all others together
  return (
    <>
      <Anchor size="sm" className="rule-link" title={name} href={href(["rules", ruleSet], { rule })}>
        <span>{ruleSet} / </span>
        <span>{rule}</span>
      </Anchor>
      {shadow && " "}
      {shadow && (
        <Badge variant="light" color="gray" tt="none" title="A shadow rule: it counts what it would reject, and rejects nothing.">
          shadow
        </Badge>
      )}
    </>
  );
}
