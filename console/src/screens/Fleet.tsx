import { Alert, Badge, Text } from "@mantine/core";
import type { Fleet as FleetData, FleetServer, Health } from "../api/live";
import { useFleet, useHealth } from "../api/queries";
import { ApiError } from "../api/client";
import { Ago } from "../ui/Ago";
import { DataTable, type Column } from "../ui/DataTable";
import { Figures } from "../ui/Figures";
import { millis, rate, shownRevision, span } from "../ui/format";
import { Page, Section } from "../ui/Page";
import { nameOf, startedAgain } from "../ui/servers";
import { Empty, Loaded } from "../ui/states";

export function Fleet() {
  const fleet = useFleet();
  return (
    <Page title="Fleet">
      <Loaded query={fleet}>
        {(data) => (
          <>
            {data.problem && (
              <Alert color="yellow" variant="light" title="Not the whole fleet" role="status">
                {data.problem}
              </Alert>
            )}
            <Totals fleet={data} />
            <Section title="Servers">
              <DataTable label="Servers" columns={serverColumns(data)} rows={data.servers} keyOf={(s) => s.id} />
            </Section>
            {data.lost.length > 0 && (
              <Section title="Lost servers">
                <DataTable label="Lost servers" columns={lostColumns(data)} rows={data.lost} keyOf={(s) => s.id} />
              </Section>
            )}
            <Section title="Rule sets">
              <Revisions fleet={data} />
            </Section>
            <Section title="Redis nodes">
              <RedisNodes fleet={data} />
            </Section>
          </>
        )}
      </Loaded>
      <Section title="Rules of this server">
        <RuleSources />
      </Section>
    </Page>
  );
}

function Totals({ fleet }: { fleet: FleetData }) {
  const t = fleet.total;
  const figures: [string, string][] = [
    ["Servers", String(fleet.servers.length)],
    ["Allowed/s", rate(t.allowed)],
    ["Limited/s", rate(t.limited)],
    ["Denied/s", rate(t.denied)],
    ["Degraded/s", rate(t.degraded)],
    ["Waiting/s", rate(t.waiting)],
    ["Shadow/s, not rejected", rate(t.shadow)],
  ];
  return <Figures title="The last 10 seconds" figures={figures} />;
}

const serverColumns = (fleet: FleetData): Column<FleetServer>[] => [
  {
    title: "Server",
    cell: (s) => (
      <span className="breakable">
        {nameOf(s, fleet)}{" "}
        {s.self && (
          <Badge size="xs" variant="light">
            answers you
          </Badge>
        )}{" "}
        {s.status && s.status !== "up" && (
          <Badge size="xs" variant="light" color={s.status === "down" ? "red" : "yellow"} tt="none" title={s.reason}>
            {s.status}
          </Badge>
        )}{" "}
        {s.draining && (
          <Badge size="xs" variant="light" color="yellow">
            shutting down
          </Badge>
        )}
      </span>
    ),
  },
  { title: "Version", cell: (s) => s.version || "unknown" },
  { title: "Started", cell: (s) => <Ago time={s.startedAt} /> },
  { title: "Reported", cell: (s) => <Ago time={s.reportedAt} /> },
  { title: "Allowed/s", number: true, cell: (s) => rate(s.rates.allowed) },
  { title: "Limited/s", number: true, cell: (s) => rate(s.rates.limited) },
  { title: "Denied/s", number: true, cell: (s) => rate(s.rates.denied) },
  { title: "Degraded/s", number: true, cell: (s) => rate(s.rates.degraded) },
  { title: "Median", number: true, cell: (s) => millis(s.p50Ms) },
  { title: "99th", number: true, cell: (s) => millis(s.p99Ms) },
];

const lostColumns = (fleet: FleetData): Column<FleetData["lost"][number]>[] => [
  { title: "Server", cell: (s) => <span className="breakable">{nameOf(s, fleet)}</span> },
  { title: "Version", cell: (s) => s.version || "unknown" },
  { title: "Lost", cell: (s) => <Ago time={s.lostAt} /> },
  { title: "What happened", cell: (s) => (startedAgain(s, fleet) ? "A server of this host has started since" : "It was killed, or cannot reach Redis") },
];

interface RevisionRow {
  ruleSet: string;
  differs: boolean;
  known: boolean; // the revisions of all servers are
  servers: { revision: number; names: string[] }[];
}

function Revisions({ fleet }: { fleet: FleetData }) {
  const rows = revisionRows(fleet);
  if (rows.length === 0) return <Empty>No server has loaded a rule set.</Empty>;
  return <DataTable label="Rule sets" columns={revisionColumns} rows={rows} keyOf={(r) => r.ruleSet} />;
}

function revisionRows(fleet: FleetData): RevisionRow[] {
  const sets = [...new Set(fleet.servers.flatMap((s) => Object.keys(s.revisions)))].sort();
  return sets.map((ruleSet) => {
    const byRevision = new Map<number, string[]>();
    for (const s of fleet.servers) {
      const revision = s.revisions[ruleSet];
      if (revision !== undefined) byRevision.set(revision, [...(byRevision.get(revision) ?? []), nameOf(s, fleet)]);
    }
    const servers = [...byRevision].sort(([a], [b]) => b - a).map(([revision, names]) => ({ revision, names }));
    return { ruleSet, servers, differs: fleet.differing.some((d) => d.ruleSet === ruleSet), known: !fleet.problem };
  });
}

const revisionColumns: Column<RevisionRow>[] = [
  { title: "Rule set", cell: (r) => <span className="breakable">{r.ruleSet}</span> },
  {
    title: "State",
    cell: (r) =>
      r.differs ? (
        <Badge size="sm" color="red" variant="light" leftSection="≠">
          revisions differ
        </Badge>
      ) : (
        r.known ? "same everywhere" : "not known of other servers"
      ),
  },
  {
    title: "Revisions",
    cell: (r) =>
      r.servers.length === 1
        ? shownRevision(r.servers[0]!.revision)
        : r.servers.map((s) => (
            <div key={s.revision} className="breakable">
              {shownRevision(s.revision)}: {s.names.join(", ")}
            </div>
          )),
  },
];

interface NodeRow {
  node: string;
  failing: { server: string; since?: string; error?: string }[];
  seenBy: number;
}

function RedisNodes({ fleet }: { fleet: FleetData }) {
  const nodes = new Map<string, NodeRow>();
  for (const s of fleet.servers) {
    for (const n of s.redis) {
      const row = nodes.get(n.node) ?? { node: n.node, failing: [], seenBy: 0 };
      row.seenBy++;
      if (n.open) row.failing.push({ server: nameOf(s, fleet), since: n.since, error: n.error });
      nodes.set(n.node, row);
    }
  }
  if (nodes.size === 0) return <Empty>No Redis node is known: the buckets are in the servers, or your role does not show the nodes.</Empty>;
  const rows = [...nodes.values()].sort((a, b) => a.node.localeCompare(b.node));
  return <DataTable label="Redis nodes" columns={nodeColumns} rows={rows} keyOf={(r) => r.node} />;
}

const nodeColumns: Column<NodeRow>[] = [
  { title: "Node", cell: (r) => <span className="breakable">{r.node}</span> },
  { title: "Servers", number: true, cell: (r) => r.seenBy },
  {
    title: "State",
    cell: (r) =>
      r.failing.length === 0 ? (
        "answers"
      ) : (
        <>
          <Badge size="sm" color="red" variant="light" leftSection="!">
            breaker open
          </Badge>
          {r.failing.map((f) => (
            <div key={f.server} className="breakable">
              {f.server}, first failure <Ago time={f.since} />
              {f.error && `: ${f.error}`}
            </div>
          ))}
        </>
      ),
  },
];

type SetRow = NonNullable<Health["rules"]["sets"]>[number];

const setColumns: Column<SetRow>[] = [
  { title: "Rule set", cell: (s) => <span className="breakable">{s.id}</span> },
  { title: "Revision", number: true, cell: (s) => shownRevision(s.revision) },
  { title: "Rules", number: true, cell: (s) => s.rules },
  { title: "From", cell: (s) => s.source },
  { title: "Confirmed", cell: (s) => (s.checkedAt ? <Ago time={s.checkedAt} /> : s.ageSeconds ? span(s.ageSeconds) + " ago" : "–") },
  { title: "Problem", cell: (s) => <span className="breakable">{s.error ?? (s.source === "none" ? "there is no such rule set" : "none")}</span> },
];

function RuleSources() {
  const health = useHealth();
  if (!health.data && health.error instanceof ApiError && health.error.status === 403) {
    return <Empty>Shown to callers that may read all rule sets.</Empty>;
  }
  return (
    <Loaded query={health}>
      {(data) => (
        <>
          <Text size="sm" mb={6}>
            Source: {data.rules.kind}. Status: {data.rules.status}. Rule sets in use: {data.rules.count}.
          </Text>
          {(data.rules.sets ?? []).length === 0 ? (
            <Empty>No rule set is loaded.</Empty>
          ) : (
            <DataTable label="Rules of this server" columns={setColumns} rows={data.rules.sets ?? []} keyOf={(s) => s.id} />
          )}
        </>
      )}
    </Loaded>
  );
}
