import type { Fleet, Health, Live } from "./api/live";
import { shownRevision, span } from "./ui/format";
import { nameOf, startedAgain } from "./ui/servers";

// Finding is one sentence about the health of the fleet. A problem changes
// decisions or rejects changes; a notice does not.
export interface Finding {
  level: "problem" | "notice";
  text: string;
}

interface Known {
  fleet?: Fleet;
  live?: Live;
  health?: Health; // of the server that answers; absent for callers that may not read all
  // failures are why parts of this could not be read, or are not up to date.
  failures?: string[];
}

// findings says in words what is wrong, the worst first. now is in milliseconds.
export function findings({ fleet, live, health, failures }: Known, now: number): Finding[] {
  const all: Finding[] = [];
  const problem = (text: string) => all.push({ level: "problem", text });
  const notice = (text: string) => all.push({ level: "notice", text });

  for (const failure of new Set(failures)) problem(`The health of this server cannot be read: ${failure}`);
  const view = fleet?.problem ?? live?.problem;
  if (view) problem(view);
  if (fleet) ofFleet(fleet, now, problem, notice);
  if (health) ofServer(health, problem, notice, fleet?.servers.some((s) => s.self && s.redis.some((n) => n.open)) ?? false);
  if (fleet) ofStatus(fleet, health, all, problem);
  return all.sort((a, b) => Number(a.level === "notice") - Number(b.level === "notice"));
}

type Say = (text: string) => void;

function ofFleet(fleet: Fleet, now: number, problem: Say, notice: Say): void {
  const running = fleet.servers;
  for (const l of fleet.lost) {
    const lost = `Server ${nameOf(l, fleet)} was lost ${span(Math.max(0, now - Date.parse(l.lostAt)) / 1000)} ago`;
    if (startedAgain(l, fleet)) notice(`${lost} and has started again.`);
    else problem(`${lost}: it was killed, or cannot reach Redis.`);
  }
  for (const [node, seen] of openNodes(fleet)) {
    const since = Math.min(...seen.map((s) => s.since));
    const time = Number.isFinite(since) ? ` for ${span(Math.max(0, now - since) / 1000)}` : "";
    const where = seen.length === running.length ? "" : ` to ${seen.map((s) => s.server).join(", ")}`;
    problem(`Redis node ${node} does not answer${where}${time}: rules decide by onFailure.`);
  }
  for (const d of fleet.differing) {
    const servers = running.filter((s) => d.ruleSet in s.revisions).length;
    problem(`${servers} servers have different revisions of ${d.ruleSet}: ${d.revisions.map(shownRevision).join(", ")}.`);
  }
  const degraded = fleet.total.degraded;
  if (degraded > 0 && openNodes(fleet).size === 0) problem("Some requests are decided without Redis: rules decide by onFailure.");
  for (const s of running) if (s.draining) notice(`Server ${nameOf(s, fleet)} is shutting down.`);
  const versions = new Set(running.map((s) => s.version ?? "unknown"));
  if (versions.size > 1) notice(`Servers have different versions: ${[...versions].sort().join(", ")}.`);
}

// nodesNamed is whether the nodes of Redis that do not answer it are named already.
function ofServer(health: Health, problem: Say, notice: Say, nodesNamed: boolean): void {
  if (health.store.error && !nodesNamed) problem(`Redis: ${health.store.error}`);
  for (const warning of health.store.warnings ?? []) notice(`Redis: ${warning}`);
  if (health.rules.error) problem(`Rules: ${health.rules.error}`);
  ofRuleSets(health.rules, problem);
  for (const warning of health.warnings ?? []) notice(sentence(warning));
  if (health.auditError) problem(`Changes are rejected while the audit cannot be written: ${health.auditError}`);
}

// mostNamed is how many rule sets with the same error are named.
const mostNamed = 3;

// ofRuleSets says once what is wrong with rule sets that have the same error, such as all of a source that is away.
function ofRuleSets(rules: Health["rules"], problem: Say): void {
  const failing = (rules.sets ?? []).filter((set) => set.error);
  const unlisted = Math.max(0, (rules.failing ?? 0) - failing.length);
  for (const error of new Set(failing.map((set) => set.error!))) {
    const sets = failing.filter((set) => set.error === error);
    const others = sets.length - mostNamed;
    const names = sets.slice(0, mostNamed).map((set) => set.id).join(", ") + (others > 0 ? ` and ${others} more` : "");
    const served = sets.length === 1 ? `revision ${shownRevision(sets[0]!.revision)}` : "their last revisions";
    problem(`${sets.length === 1 ? "Rule set" : "Rule sets"} ${names}: ${ended(error)} Still serving ${served}.`);
  }
  if (unlisted > 0) problem(`${unlisted} more rule ${unlisted === 1 ? "set has" : "sets have"} a problem.`);
}

// ended ends a text with a full stop, or with the sign that it is cut.
function ended(text: string): string {
  return text.replace(/(?<![.…])$/, ".");
}

// sentence begins a text with a capital letter, unless it begins with a name such as rules.copies.
function sentence(text: string): string {
  return text.replace(/^[a-z]+(?= )/, (word) => word[0]!.toUpperCase() + word.slice(1));
}

// ofStatus names the servers that are not up, those with the same reason together. A degraded server is
// left out if something found before explains it.
function ofStatus(fleet: Fleet, health: Health | undefined, found: Finding[], problem: Say): void {
  const explained = found.filter((f) => f.level === "problem").map((f) => f.text);
  const servers = new Map<string, string[]>();
  for (const s of fleet.servers) {
    const status = (s.self && health?.status) || s.status;
    if (!status || status === "up") continue;
    const known = s.redis.some((n) => n.open) || (s.self && health !== undefined && explained.length > 0);
    if (status !== "down" && known) continue;
    // Another server may name another rule set first, and cuts a long reason.
    const cause = s.reason?.replace(/^rule set \S+: /, "").replace(/…$/, "");
    const reason = cause && !explained.some((text) => text.includes(cause)) ? `: ${s.reason}` : "";
    servers.set(status + reason, [...(servers.get(status + reason) ?? []), nameOf(s, fleet)]);
  }
  for (const [what, names] of servers) problem(`${names.length === 1 ? `Server ${names[0]!} is` : `Servers ${names.join(", ")} are`} ${ended(what)}`);
}

// openNodes returns the Redis nodes whose breaker is open, with the servers that say
// so and since when.
function openNodes(fleet: Fleet): Map<string, { server: string; since: number }[]> {
  const nodes = new Map<string, { server: string; since: number }[]>();
  for (const s of fleet.servers) {
    for (const n of s.redis) {
      if (!n.open) continue;
      const since = n.since ? Date.parse(n.since) : NaN;
      nodes.set(n.node, [...(nodes.get(n.node) ?? []), { server: nameOf(s, fleet), since: Number.isNaN(since) ? Infinity : since }]);
    }
  }
  return nodes;
}
