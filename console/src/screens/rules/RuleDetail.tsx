import { Anchor, Group, Text } from "@mantine/core";
import { api, unwrap } from "../../api/client";
import type { Live } from "../../api/live";
import { useLive } from "../../api/useLive";
import { href } from "../../router";
import { Ago } from "../../ui/Ago";
import { Chart } from "../../ui/Chart";
import { count, rate } from "../../ui/format";
import { Section } from "../../ui/Page";
import { Loaded } from "../../ui/states";
import { textOf, type Rule } from "./text";

// RuleDetail shows the numbers of one rule on the server that answers, and its text.
export function RuleDetail({ ruleSet, rule }: { ruleSet: string; rule: Rule }) {
  const query = { ruleSet, rule: rule.id };
  const live = useLive(["live", "rule", ruleSet, rule.id], () => unwrap(api.GET("/v1/live", { params: { query: { ...query, scope: "server" } } })));
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
      <Section title="Requests per second on this server">
        <Loaded query={live}>{(data) => <Requests live={data} />}</Loaded>
      </Section>
      <Counted ruleSet={ruleSet} rule={rule.id} />
      <Section title="As YAML">
        <pre className="yaml" tabIndex={0} aria-label={`Rule ${rule.id} as YAML`}>
          {textOf({ id: ruleSet, rules: [rule] }).replace(/^[^]*?\nrules:\n/, "")}
        </pre>
      </Section>
    </>
  );
}

function Requests({ live }: { live: Live }) {
  const lines = [
    { name: "Allowed", color: "--series-allowed", values: live.series.allowed ?? [] },
    { name: "Limited", color: "--series-limited", values: live.series.limited ?? [], dash: [6, 3] },
    { name: "Shadow, not rejected", color: "--series-shadow", values: live.series.shadow ?? [], dash: [2, 3] },
  ];
  return <Chart title="Requests per second" lines={lines} end={Date.parse(live.end) / 1000} step={live.stepSeconds} format={rate} />;
}

function Counted({ ruleSet, rule }: { ruleSet: string; rule: string }) {
  const counters = useLive(["counters", ruleSet], () => unwrap(api.GET("/v1/rule-sets/{ruleSet}/counters", { params: { path: { ruleSet } } })), 5000);
  return (
    <Section title="Decisions of this server">
      <Loaded query={counters}>
        {({ rules, since }) => {
          const found = rules.find((r) => r.rule === rule);
          const numbers = [...Object.entries(found?.decisions ?? {}), ["would have been rejected in shadow", found?.shadowRejected ?? 0] as const];
          return (
            <Text size="sm">
              Since it started counting (<Ago time={since} />
              ): {numbers.map(([name, n]) => `${count(n)} ${name}`).join(", ")}.
            </Text>
          );
        }}
      </Loaded>
    </Section>
  );
}
