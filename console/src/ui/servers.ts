import type { Fleet } from "../api/live";

type LostServer = Fleet["lost"][number];

// nameOf returns the name of a server, with its id if others have the same name.
export function nameOf(server: { id: string; name: string }, fleet: Fleet): string {
  const same = [...fleet.servers, ...fleet.lost].filter((s) => s.name === server.name).length;
  return same > 1 ? `${server.name} (${server.id.slice(0, 6)})` : server.name;
}

// notStored returns the rule sets that running servers have in effect and that are not stored, with their revisions.
export function notStored(fleet: Fleet | undefined, stored: string[]): { id: string; revisions: number[] }[] {
  const found = new Map<string, Set<number>>();
  for (const s of fleet?.servers ?? []) {
    for (const [id, revision] of Object.entries(s.revisions)) {
      if (!stored.includes(id)) found.set(id, (found.get(id) ?? new Set()).add(revision));
    }
  }
  return [...found].sort(([a], [b]) => a.localeCompare(b)).map(([id, revisions]) => ({ id, revisions: [...revisions].sort((a, b) => a - b) }));
}

// heartbeatMs is how long a heartbeat lasts: a server may start again before that of its former process has ended.
const heartbeatMs = 6_000;

// startedAgain returns whether a host on which a server was lost has a newer one.
export function startedAgain(lost: LostServer, fleet: Fleet): boolean {
  return fleet.servers.some((s) => s.name === lost.name && Date.parse(s.startedAt) > Date.parse(lost.lostAt) - heartbeatMs);
}
