import { Alert, Button, Group, NativeSelect, SegmentedControl, Text } from "@mantine/core";
import { useState } from "react";
import type { Caller } from "../api/live";
import { useCallers, useNumbers, useRuleSets, type CallerFilter } from "../api/queries";
import { propose, type Draft } from "../draft";
import { parseIdentity } from "../identity";
import { canPropose, exempt } from "../proposals";
import { href, navigate, replaceQuery, useRoute } from "../router";
import { useWho } from "../session";
import { Ago } from "../ui/Ago";
import { CallerName } from "../ui/CallerName";
import { DataTable, type Column } from "../ui/DataTable";
import { count, rate } from "../ui/format";
import { Page } from "../ui/Page";
import { RuleLink } from "../ui/RuleLink";
import { Empty, Loaded } from "../ui/states";
import { OverrideForm } from "./OverrideForm";

export function Callers() {
  const filter = filterOf(useRoute().query);
  const callers = useCallers({ ...filter, limit: 100 });
  const who = useWho();
  return (
    <Page title="Callers" controls={<Filter filter={filter} />}>
      {!who.roles.includes("identities") && (
        <Text size="sm" c="dimmed">
          Callers are shown as the keys of their buckets. The role identities shows who they are.
        </Text>
      )}
      <Loaded query={callers}>
        {(data) => (
          <>
            {data.problem && (
              <Alert color="yellow" variant="light" title="Not the whole fleet" role="status">
                {data.problem}
              </Alert>
            )}
            {data.callers.length === 0 ? (
              <Empty>{filter.outcome === "limited" ? "No caller was limited of late." : "No caller was allowed of late."}</Empty>
            ) : (
              <DataTable label="Callers" columns={columns(data.callers, who.roles.includes("write"))} rows={data.callers} keyOf={(c) => c.ruleSet + " " + c.rule + " " + c.key} />
            )}
            <Text size="xs" c="dimmed">
              The counts begin <Ago time={data.since} />. They are estimates.
            </Text>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function filterOf(query: URLSearchParams): CallerFilter {
  return {
    outcome: query.get("outcome") === "allowed" ? "allowed" : "limited",
    ruleSet: query.get("ruleSet") || undefined,
    rule: query.get("rule") || undefined,
  };
}

function Filter({ filter }: { filter: CallerFilter }) {
  const sets = useRuleSets().data?.ruleSets ?? [];
  const rules = (useNumbers().data?.rules ?? []).filter((r) => r.ruleSet === filter.ruleSet).map((r) => r.rule);
  const change = (part: Partial<CallerFilter>) => replaceQuery({ ...filter, ...part });
  return (
    <Group gap="xs">
      <SegmentedControl
        size="xs"
        aria-label="Outcome"
        value={filter.outcome}
        onChange={(value) => change({ outcome: value as CallerFilter["outcome"] })}
        data={[
          { value: "limited", label: "Limited" },
          { value: "allowed", label: "Allowed" },
        ]}
      />
      <NativeSelect
        size="xs"
        aria-label="Rule set"
        value={filter.ruleSet ?? ""}
        onChange={(e) => change({ ruleSet: e.currentTarget.value, rule: undefined })}
        data={choices("All rule sets", sets.map((s) => s.id), filter.ruleSet)}
      />
      {filter.ruleSet && (
        <NativeSelect
          size="xs"
          aria-label="Rule"
          value={filter.rule ?? ""}
          onChange={(e) => change({ rule: e.currentTarget.value })}
          data={choices("All rules", rules, filter.rule)}
        />
      )}
    </Group>
  );
}

// choices are the ids to choose from, among them the current one.
function choices(all: string, ids: string[], current: string | undefined) {
  const known = [...new Set(current ? [...ids, current] : ids)].sort();
  return [{ value: "", label: all }, ...known.map((id) => ({ value: id, label: id }))];
}

function columns(callers: Caller[], mayWrite: boolean): Column<Caller>[] {
  const shown: Column<Caller>[] = [
    { title: "Caller", cell: (c) => <CallerName caller={c} /> },
    { title: "Rule", cell: (c) => <RuleLink ruleSet={c.ruleSet} rule={c.rule} shadow={c.shadow} /> },
    { title: "Per second", number: true, cell: (c) => rate(c.perSecond) },
    { title: "Requests", number: true, cell: (c) => count(c.count) },
  ];
  if (callers.some((c) => parseIdentity(c.identity))) {
    shown.push({ title: "What to do", cell: (c) => <Actions caller={c} mayWrite={mayWrite} /> });
  }
  return shown;
}

function Actions({ caller, mayWrite }: { caller: Caller; mayWrite: boolean }) {
  const [overriding, setOverriding] = useState(false);
  const identity = parseIdentity(caller.identity);
  if (!identity) return null;
  const name = caller.identity;
  const subject = { ruleSet: caller.ruleSet, rule: caller.rule, identity };
  return (
    <Group gap={4} wrap="nowrap">
      <Button size="compact-xs" variant="default" component="a" href={href("/explain", { ruleSet: caller.ruleSet, rule: caller.rule, ...identity })} aria-label={`Explain ${name}`}>
        Explain
      </Button>
      {mayWrite && canPropose(identity) && (
        <Button size="compact-xs" variant="default" onClick={() => open(exempt(subject))} aria-label={`Exempt ${name}`}>
          Exempt
        </Button>
      )}
      {mayWrite && (
        <Button size="compact-xs" variant="default" onClick={() => setOverriding(true)} aria-label={`Override for ${name}`}>
          Override
        </Button>
      )}
      {overriding && <OverrideForm {...subject} close={() => setOverriding(false)} />}
    </Group>
  );
}

function open(draft: Draft): void {
  propose(draft);
  navigate(["rules", draft.ruleSet]);
}
