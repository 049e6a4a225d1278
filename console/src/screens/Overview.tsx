import { Alert, Anchor, Paper } from "@mantine/core";
import { ApiError } from "../api/client";
import type { Caller, Live } from "../api/live";
import { useCallers, useFleet, useHealth, useNumbers } from "../api/queries";
import { findings } from "../health";
import { href } from "../router";
import { useNow } from "../ui/Ago";
import { CallerName } from "../ui/CallerName";
import { Chart, type Line } from "../ui/Chart";
import { DataTable, type Column } from "../ui/DataTable";
import { count, millis, rate, rejected } from "../ui/format";
import { Page, Section } from "../ui/Page";
import { RuleLink } from "../ui/RuleLink";
import { Empty, Loaded } from "../ui/states";

export function Overview() {
  const numbers = useNumbers();
  const callers = useCallers({ outcome: "limited", limit: 10 });
  return (
    <Page title="Overview">
      <HealthInWords live={numbers.data} />
      <Loaded query={numbers}>{(live) => <Charts live={live} />}</Loaded>
      <div className="grid">
        <Section title="Rules that reject most" controls={<More to="/rules">All rules</More>}>
          <Loaded query={numbers}>{(live) => <BusiestRules live={live} />}</Loaded>
        </Section>
        <Section title="Callers limited most" controls={<More to="/callers">All callers</More>}>
          <Loaded query={callers}>{(data) => <MostLimited callers={data.callers} />}</Loaded>
        </Section>
      </div>
    </Page>
  );
}

function More({ to, children }: { to: string; children: string }) {
  return (
    <Anchor size="sm" href={href(to)}>
      {children}
    </Anchor>
  );
}

function HealthInWords({ live }: { live: Live | undefined }) {
  const fleet = useFleet();
  const health = useHealth();
  const now = useNow();
  if (!fleet.data) return fleet.error ? <Loaded query={fleet}>{() => null}</Loaded> : null;
  if (!health.data && !health.error) return null; // it is not known yet
  const hidden = health.error instanceof ApiError && health.error.status === 403;
  const failures = [fleet.error, hidden ? null : health.error].filter((e) => e !== null).map((e) => e.message);
  const found = findings({ fleet: fleet.data, live, health: hidden ? undefined : health.data, failures }, now);
  const servers = fleet.data.servers.length;
  if (found.length === 0) {
    return (
      <Alert color="green" variant="light" p="xs" role="status">
        Healthy: {servers === 1 ? "1 server answers" : `${servers} servers answer, with the same rules`}.
      </Alert>
    );
  }
  const worst = found[0]!.level;
  return (
    <Alert color={worst === "problem" ? "red" : "yellow"} variant="light" p="xs" title={worst === "problem" ? "Problems" : "Notices"} role="status">
      <ul className="plain">
        {found.map((f) => (
          <li key={f.text} className="breakable">
            {f.text}
          </li>
        ))}
      </ul>
    </Alert>
  );
}

function Charts({ live }: { live: Live }) {
  const { series } = live;
  const end = Date.parse(live.end) / 1000;
  const common = { end, step: live.stepSeconds };
  const where = live.servers === 1 ? "1 server" : `${live.servers} servers`;
  const requests: Line[] = [
    { name: "Allowed", color: "--series-allowed", values: series.allowed },
    { name: "Degraded", color: "--series-degraded", values: series.degraded, dash: [8, 4] },
  ];
  const rejected: Line[] = [
    { name: "Limited", color: "--series-limited", values: series.limited },
    { name: "Denied", color: "--series-denied", values: series.denied, dash: [2, 3] },
    { name: "Shadow, not rejected", color: "--series-shadow", values: series.shadow, dash: [8, 4] },
  ];
  const time: Line[] = [
    { name: "Median", color: "--series-waiting", values: series.p50Ms },
    { name: "99th percentile", color: "--series-shadow", values: series.p99Ms, dash: [8, 4] },
  ];
  return (
    <div className="grid three">
      <ChartCard title={`Requests per second, ${where}`}>
        {(title) => <Chart title={title} lines={requests} format={rate} {...common} />}
      </ChartCard>
      <ChartCard title={`Rejected per second, ${where}`}>
        {(title) => <Chart title={title} lines={rejected} format={rate} {...common} />}
      </ChartCard>
      <ChartCard title={`Time to decide, ${where}`}>{(title) => <Chart title={title} lines={time} format={millis} unit=" ms" {...common} />}</ChartCard>
    </div>
  );
}

function ChartCard({ title, children }: { title: string; children: (title: string) => React.ReactNode }) {
  return (
    <Paper withBorder p="sm" component="section" aria-label={title}>
      <h2 className="card-title">{title}</h2>
      {children(title)}
    </Paper>
  );
}

type RuleRow = Live["rules"][number];

const ruleColumns: Column<RuleRow>[] = [
  { title: "Rule", cell: (r) => <RuleLink ruleSet={r.ruleSet} rule={r.rule} shadow={r.shadow > 0} /> },
  { title: "Rejected/s", number: true, cell: (r) => rate(rejected(r)) },
  { title: "Shadow/s", number: true, cell: (r) => rate(r.shadow) },
  { title: "Allowed/s", number: true, cell: (r) => rate(r.allowed) },
];

function BusiestRules({ live }: { live: Live }) {
  const rows = live.rules.slice(0, 10);
  if (rows.length === 0) return <Empty>No rule has decided a request in the last 10 seconds.</Empty>;
  return <DataTable label="Rules that reject most" columns={ruleColumns} rows={rows} keyOf={(r) => r.ruleSet + " " + r.rule} />;
}

const callerColumns: Column<Caller>[] = [
  { title: "Caller", cell: (c) => <CallerName caller={c} /> },
  { title: "Rule", cell: (c) => <RuleLink ruleSet={c.ruleSet} rule={c.rule} shadow={c.shadow} /> },
  { title: "Limited/s", number: true, cell: (c) => rate(c.perSecond) },
  { title: "Limited", number: true, cell: (c) => count(c.count) },
];

function MostLimited({ callers }: { callers: Caller[] }) {
  if (callers.length === 0) return <Empty>No caller was limited in the last minute.</Empty>;
  return <DataTable label="Callers limited most" columns={callerColumns} rows={callers} keyOf={(c) => c.ruleSet + c.rule + c.key} />;
}
