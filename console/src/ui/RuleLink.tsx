import { Anchor, Badge } from "@mantine/core";
import { href } from "../router";

// RuleLink names a rule and leads to it. A shadow rule is marked.
export function RuleLink({ ruleSet, rule, shadow }: { ruleSet: string; rule: string; shadow?: boolean }) {
  const name = `${ruleSet} / ${rule}`;
  if (!/^[A-Za-z0-9._-]+$/.test(rule) || rule === "other") return <span className="breakable">{name}</span>; // no rule: all others together
  return (
    <>
      <Anchor size="sm" className="breakable" href={href(["rules", ruleSet], { rule })}>
        {name}
      </Anchor>
      {shadow && (
        <Badge ml={6} variant="light" color="gray" tt="none">
          shadow
        </Badge>
      )}
    </>
  );
}
