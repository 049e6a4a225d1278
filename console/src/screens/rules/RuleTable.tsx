import { Anchor, Badge } from "@mantine/core";
import type { ReactNode } from "react";
import type { Live } from "../../api/live";
import { href } from "../../router";
import { DataTable, type Column } from "../../ui/DataTable";
import { rate, rejected } from "../../ui/format";
import type { Rule } from "./text";
import { limitsOf, matchOf, stateOf, type State } from "./words";

const colors: Record<State, string> = { enforced: "blue", shadow: "gray", alternative: "blue", disabled: "yellow", ended: "yellow", exempt: "green", deny: "red" };

export function StateBadge({ rule }: { rule: Rule }) {
  const state = stateOf(rule);
  return (
    <Badge variant="light" color={colors[state]} tt="none">
      {state}
      {rule.until && state !== "ended" && ` until ${new Date(rule.until).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" })}`}
    </Badge>
  );
}

interface Props {
  ruleSet: string;
  rules: Rule[];
  live: Live | undefined;
  // action is what can be done with a rule.
  action?: (rule: Rule) => ReactNode;
}

// RuleTable lists rules with their rates. A rule without a rate had no requests in the
// last 10 seconds, or fewer than those that are reported.
export function RuleTable({ ruleSet, rules, live, action }: Props) {
  const rates = new Map((live?.rules ?? []).filter((r) => r.ruleSet === ruleSet).map((r) => [r.rule, r]));
  const columns: Column<Rule>[] = [
    {
      title: "Rule",
      cell: (r) => (
        <Anchor size="sm" className="breakable" href={href(["rules", ruleSet], { rule: r.id })}>
          {r.id}
        </Anchor>
      ),
    },
    { title: "State", cell: (r) => <StateBadge rule={r} /> },
    { title: "Requests", cell: (r) => <span className="breakable">{matchOf(r)}</span> },
    { title: "Limit", cell: (r) => <span className="breakable">{limitsOf(r)}</span> },
    { title: "By", cell: (r) => (r.action && r.action !== "limit" ? "–" : (r.limitScope ?? "GLOBAL")) },
    { title: "Allowed/s", number: true, cell: (r) => rate(rates.get(r.id)?.allowed) },
    { title: "Rejected/s", number: true, cell: (r) => rate(rejected(rates.get(r.id))) },
    { title: "Shadow/s", number: true, cell: (r) => rate(rates.get(r.id)?.shadow) },
  ];
  if (action) columns.push({ title: "What to do", cell: action });
  return (
    <div className="rule-table">
      <DataTable label={`Rules of ${ruleSet}`} columns={columns} rows={rules} keyOf={(r) => r.id} />
    </div>
  );
}
