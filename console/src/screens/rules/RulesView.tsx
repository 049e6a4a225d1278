import { Anchor, Button, Group, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useNumbers } from "../../api/queries";
import { href, useRoute } from "../../router";
import { Empty } from "../../ui/states";
import { RuleDetail } from "./RuleDetail";
import { RuleForm } from "./RuleForm";
import { RuleTable } from "./RuleTable";
import type { Part } from "./ruleset";
import type { Rule } from "./text";
import { contains } from "./words";

const portion = 200;

// RulesView lists the rules of a rule set, or shows one of them: ?rule=per-user.
export function RulesView(part: Part) {
  const { id, current, refused, show } = part;
  const chosen = useRoute().query.get("rule");
  const [search, setSearch] = useState("");
  const [size, setSize] = useState(portion);
  const [changing, setChanging] = useState<Rule>();
  const live = useNumbers(1000).data;
  if (!current.set) {
    return (
      <>
        <Empty>There is no rule set {id} in the source.</Empty>
        {!refused && (
          <Group>
            <Button onClick={() => show("yaml")}>Create it</Button>
          </Group>
        )}
      </>
    );
  }
  const rules = current.set.rules;
  const detail = rules.find((r) => r.id === chosen);
  const found = rules.filter((rule) => (detail ? rule === detail : contains(rule, search)));
  const change = (rule: Rule) => (
    <Button size="compact-xs" variant="default" aria-label={`Change ${rule.id}`} onClick={() => setChanging(rule)}>
      Change
    </Button>
  );
  return (
    <>
      {chosen && !detail && <Empty>There is no rule {chosen} any more.</Empty>}
      {detail ? (
        <Group gap="xs">
          <Text size="sm">One of {rules.length} rules.</Text>
          <Anchor size="sm" href={href(["rules", id])}>
            Show all rules
          </Anchor>
        </Group>
      ) : (
        <TextInput type="search" label="Search" placeholder="A rule, path, user, scope or state" value={search} onChange={(e) => setSearch(e.currentTarget.value)} />
      )}
      {live?.problem && (
        <Text size="sm" c="dimmed">
          {live.problem}
        </Text>
      )}
      {found.length > 0 ? <RuleTable ruleSet={id} rules={found.slice(0, size)} live={live} action={refused ? undefined : change} /> : <Empty>No rule has this text.</Empty>}
      {found.length > size && (
        <Group>
          <Text size="sm">
            Shown are {size} of {found.length} rules.
          </Text>
          <Button size="xs" variant="default" onClick={() => setSize(size + portion)}>
            Show more
          </Button>
        </Group>
      )}
      {detail && <RuleDetail ruleSet={id} rule={detail} />}
      {changing && <RuleForm part={part} rule={changing} close={() => setChanging(undefined)} />}
    </>
  );
}
