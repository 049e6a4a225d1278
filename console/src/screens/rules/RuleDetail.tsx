import { Anchor, Group } from "@mantine/core";
import { useNumbers } from "../../api/queries";
import { href } from "../../router";
import { Figures } from "../../ui/Figures";
import { rate } from "../../ui/format";
import { Section } from "../../ui/Page";
import { textOf, type Rule } from "./text";

// RuleDetail shows the rates of one rule, and its text.
export function RuleDetail({ ruleSet, rule }: { ruleSet: string; rule: Rule }) {
  const query = { ruleSet, rule: rule.id };
  return (
    <>
      <Group gap="md">
        <Anchor size="sm" href={href("/callers", query)}>
          Its callers
        </Anchor>
        <Anchor size="sm" href={href("/explain", query)}>
          Explain a request
        </Anchor>
      </Group>
      <Rates ruleSet={ruleSet} rule={rule.id} />
      <Section title="As YAML">
        <pre className="yaml" tabIndex={0} aria-label={`Rule ${rule.id} as YAML`}>
          {textOf({ id: ruleSet, rules: [rule] }).replace(/^[^]*?\nrules:\n/, "")}
        </pre>
      </Section>
    </>
  );
}

// Rates are those of all servers. A rule without them had no requests, or fewer than those that are reported.
function Rates({ ruleSet, rule }: { ruleSet: string; rule: string }) {
  const found = useNumbers(1000).data?.rules.find((r) => r.ruleSet === ruleSet && r.rule === rule);
  if (!found) return null;
  const figures: [string, string][] = [
    ["Allowed", rate(found.allowed)],
    ["Limited", rate(found.limited)],
    ["Denied", rate(found.denied)],
    ["Shadow, not rejected", rate(found.shadow)],
    ["Waiting", rate(found.waiting)],
    ["Degraded", rate(found.degraded)],
  ];
  return <Figures title="Requests per second" figures={figures} />;
}
