import type { Draft, Rule } from "./draft";
import type { Identity } from "./identity";

// Subject is a caller of a rule: a user or an address.
interface Subject {
  ruleSet: string;
  rule: string;
  identity: Identity;
}

// subjectOf returns how a rule names a caller, or undefined if it cannot.
function whenOf({ userId, ip }: Identity): Partial<Rule["when"]> | undefined {
  if (userId) return { users: [userId] };
  if (ip) return { ips: [ip] };
  return undefined;
}

export function canPropose(identity: Identity | undefined): identity is Identity {
  return identity !== undefined && whenOf(identity) !== undefined;
}

// exempt proposes a rule that lets a caller pass where the rule limits it. It ends the
// evaluation, so rules of a lower priority do not limit the caller there either.
export function exempt(subject: Subject): Draft {
  return {
    ruleSet: subject.ruleSet,
    title: `Exempt ${nameOf(subject.identity)} from ${subject.rule}`,
    apply: (rules) => {
      const limiting = find(rules, subject);
      const { path, paths, method, methods, ignoreCase, when } = limiting;
      const matching = withoutUndefined({ path, paths, method, methods, ignoreCase, when: { ...when, ...whenOf(subject.identity) } });
      const id = freeId(rules, `exempt-${slug(subject.identity)}`);
      return [...rules, { ...matching, id, priority: (limiting.priority ?? 0) + 1, action: "allow" }];
    },
  };
}

function find(rules: Rule[], { ruleSet, rule }: Subject): Rule {
  const found = rules.find((r) => r.id === rule);
  if (!found) throw new Error(`Rule set ${ruleSet} has no rule ${rule} any more.`);
  return found;
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as T;
}

function nameOf({ userId, ip }: Identity): string {
  return userId ? `user ${userId}` : `address ${ip ?? ""}`;
}

// slug is the caller in the characters of an id.
function slug({ userId, ip }: Identity): string {
  return (userId ?? ip ?? "").replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 48) || "caller";
}

function freeId(rules: Rule[], wanted: string): string {
  const taken = new Set(rules.map((r) => r.id));
  for (let n = 1; ; n++) {
    const id = n === 1 ? wanted : `${wanted}-${n}`;
    if (!taken.has(id)) return id;
  }
}
