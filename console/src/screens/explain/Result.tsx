import { Alert, Anchor, Badge, Button, Group, Modal, Paper, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap, type Schemas } from "../../api/client";
import { href } from "../../router";
import { amountOf, currencyOf } from "../../ui/amount";
import { DataTable, type Column } from "../../ui/DataTable";
import { numbersOf } from "../../ui/overrides";
import { Section } from "../../ui/Page";
import { Empty, Failure } from "../../ui/states";
import { useMissingRole } from "../rules/queries";
import { RefillPlot } from "./RefillPlot";
import { leftOf, noVerdict, refillOf, time, unknown, verdictOf, whyNot, type Band } from "./words";

type Explanation = Schemas["Explanation"];
type Verdict = Schemas["Verdict"];

interface Props {
  explanation: Explanation;
  // about is the rule that the question is about, or empty. Without it in effect a decision would answer
  // another question.
  about: string;
  forget: () => void;
  refresh: () => void;
}

// Result is the decision about a request, the rules with their reasons, and the buckets.
export function Result({ explanation, about, forget, refresh }: Props) {
  const { ruleSet, decision, rules, readings } = explanation;
  const applying = rules.filter((r) => r.applies);
  const others = rules.filter((r) => !r.applies);
  const missed = noVerdict(explanation, about);
  return (
    <>
      {missed && (
        <Alert color="yellow" variant="light" title="No verdict" role="status">
          <Text size="sm" className="breakable">
            {missed}
          </Text>
          <Button mt="xs" size="xs" variant="default" onClick={forget}>
            Decide this request anyway
          </Button>
        </Alert>
      )}
      {!missed && decision && (
        <Alert color={decision.allowed ? "green" : "red"} variant="light" title={decision.allowed ? "Allowed" : "Rejected"} role="status">
          <Text size="sm" className="breakable">
            {verdictOf(decision)} No tokens were taken.
          </Text>
        </Alert>
      )}
      {readings && readings.length > 0 && (
        <Text size="sm" className="breakable">
          Routers may read the path as {readings.join(", ")}. Each is evaluated.
        </Text>
      )}
      <Section title="Rules that apply">
        {applying.length === 0 ? <Empty>No rule applies.</Empty> : <DataTable label="Rules that apply" columns={applyingColumns(ruleSet)} rows={applying} keyOf={(v) => v.rule} />}
      </Section>
      <Buckets ruleSet={ruleSet} applying={applying} bands={decision?.bands ?? []} refresh={refresh} />
      <Section title="Rules that do not apply">
        {others.length === 0 ? <Empty>All rules apply.</Empty> : <DataTable label="Rules that do not apply" columns={otherColumns(ruleSet)} rows={others} keyOf={(v) => v.rule} />}
      </Section>
    </>
  );
}

function ruleCell(ruleSet: string): Column<Verdict> {
  return {
    title: "Rule",
    cell: (v) => (
      <Anchor size="sm" className="breakable" href={href(["rules", ruleSet], { rule: v.rule })}>
        {v.rule}
      </Anchor>
    ),
  };
}

function applyingColumns(ruleSet: string): Column<Verdict>[] {
  return [
    ruleCell(ruleSet),
    { title: "Does", cell: (v) => (v.shadow ? "shadow: rejects nothing" : v.action === "allow" ? "exempts" : v.action === "deny" ? "rejects" : "limits") },
    { title: "Counts by", cell: (v) => <span className="breakable">{countsBy(v)}</span> },
    { title: "Cost", number: true, cell: costOf },
    { title: "Priority", number: true, cell: (v) => v.priority },
  ];
}

function costOf({ cost = 1, measure }: Verdict): string {
  return amountOf(cost, measure, "ceil") + (measure && !currencyOf(measure) ? " " + measure : "");
}

function countsBy({ limitScope, identity, missing, action }: Verdict): string {
  if (action) return "–";
  const parts = identity?.length ? ` (${identity.join(", ")})` : "";
  return `${limitScope ?? ""}${parts}${missing?.length ? `, missing: ${missing.join(", ")}` : ""}`;
}

function otherColumns(ruleSet: string): Column<Verdict>[] {
  return [ruleCell(ruleSet), { title: "Why not", cell: (v) => <span className="breakable">{whyNot(v)}</span> }, { title: "Priority", number: true, cell: (v) => v.priority }];
}

interface BucketsProps {
  ruleSet: string;
  applying: Verdict[];
  bands: Band[];
  refresh: () => void;
}

function Buckets({ ruleSet, applying, bands, refresh }: BucketsProps) {
  const refused = useMissingRole();
  const [resetting, setResetting] = useState<Verdict>();
  const counted = applying.filter((v) => bands.some((b) => b.rule === v.rule));
  if (counted.length === 0) return null;
  return (
    <Section title="Buckets">
      <div className="grid">
        {counted.map((verdict) => (
          <Paper key={verdict.rule} withBorder p="sm" component="section" aria-label={`Bucket of ${verdict.rule}`}>
            <Group justify="space-between" gap="xs">
              <Title order={3} size="h5" className="breakable">
                {verdict.rule}
              </Title>
              {!refused && verdict.key && (
                <Button size="compact-xs" variant="default" aria-label={`Reset the bucket of ${verdict.rule}`} onClick={() => setResetting(verdict)}>
                  Reset
                </Button>
              )}
            </Group>
            {verdict.key && (
              <Text size="xs" c="dimmed" className="breakable">
                Key {verdict.key}
              </Text>
            )}
            {verdict.override && (
              <Text size="sm">
                Override: {numbersOf(verdict.override, verdict.measure)}
                {verdict.override.until && `, until ${new Date(verdict.override.until).toLocaleString()}`}
              </Text>
            )}
            {bands
              .filter((b) => b.rule === verdict.rule)
              .map((band, i) => (
                <BandOf key={i} band={band} />
              ))}
          </Paper>
        ))}
      </div>
      {refused && (
        <Text size="sm" c="dimmed" mt="xs">
          {refused}
        </Text>
      )}
      {resetting && <ResetQuestion ruleSet={ruleSet} verdict={resetting} done={refresh} close={() => setResetting(undefined)} />}
    </Section>
  );
}

function BandOf({ band }: { band: Band }) {
  return (
    <div className="band-state">
      <Group gap="xs">
        <Text size="sm" fw={600}>
          {leftOf(band)}
        </Text>
        {band.label && (
          <Text size="sm" c="dimmed" className="breakable">
            {band.label}
          </Text>
        )}
        {band.status !== "ok" && (
          <Badge color={unknown(band) ? "yellow" : band.shadow ? "gray" : "red"} variant="light" tt="none">
            {band.shadow && band.status === "rejected" ? "shadow: would reject" : band.status}
          </Badge>
        )}
        {band.source !== "store" && !unknown(band) && (
          <Badge color="yellow" variant="light" tt="none">
            {band.source}
          </Badge>
        )}
      </Group>
      <Text size="sm">
        {refillOf(band)}
        {(band.waitMs ?? 0) > 0 && ` The request fits in ${time(band.waitMs!)}.`}
      </Text>
      {!unknown(band) && <RefillPlot band={band} />}
    </div>
  );
}

interface ResetProps {
  ruleSet: string;
  verdict: Verdict;
  done: () => void;
  close: () => void;
}

function ResetQuestion({ ruleSet, verdict, done, close }: ResetProps) {
  const reset = useMutation({
    mutationFn: () => unwrap(api.POST("/v1/rule-sets/{ruleSet}/buckets/reset", { params: { path: { ruleSet } }, body: { rule: verdict.rule, key: verdict.key } })),
    onSuccess: () => {
      done();
      close();
    },
  });
  return (
    <Modal opened onClose={close} title={`Reset the bucket of ${verdict.rule}?`}>
      <Text size="sm" className="breakable">
        All limits of this caller under rule {verdict.rule} are full afterwards, on every server. What was used is forgotten. This cannot be undone and is in the audit.
      </Text>
      {reset.error && <Failure error={reset.error} />}
      <Group mt="md">
        <Button color="red" loading={reset.isPending} onClick={() => reset.mutate()}>
          Reset
        </Button>
        <Button variant="default" onClick={close} data-autofocus>
          Cancel
        </Button>
      </Group>
    </Modal>
  );
}
