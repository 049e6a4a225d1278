import { Alert, Anchor, Button, Group, Modal, Text, TextInput, Title } from "@mantine/core";
import { useState, type ReactNode } from "react";
import type { Schemas } from "../../api/client";
import type { Live } from "../../api/live";
import { ruleSets, useFleet, useNumbers } from "../../api/queries";
import { useLive } from "../../api/useLive";
import { href, navigate } from "../../router";
import { shownRevision } from "../../ui/format";
import { Page } from "../../ui/Page";
import { notStored } from "../../ui/servers";
import { Empty, Failure, Loaded, Loading } from "../../ui/states";
import { useAllRules, useMayNotWrite } from "./queries";
import { RuleTable } from "./RuleTable";
import { Saved } from "./Saved";
import { contains } from "./words";

type Entry = Schemas["Entry"];

// Rules are read in one request for each rule set, so not of all at once.
const portion = 50;

// RuleSets lists all rule sets with their rules.
export function RuleSets() {
  const sets = useLive(ruleSets.queryKey, ruleSets.queryFn, 5000);
  const [search, setSearch] = useState("");
  const refused = useMayNotWrite();
  const live = useNumbers(1000).data;
  return (
    <Page title="Rules" controls={!refused && !sets.data?.fromMemory && <NewRuleSet />}>
      {refused && <Refused why={refused} />}
      <TextInput type="search" label="Search" placeholder="A rule set, rule, path, user, scope or state" value={search} onChange={(e) => setSearch(e.currentTarget.value)} />
      <Loaded query={sets}>
        {(data) => (
          <>
            {data.fromMemory && <FromMemory>Rule sets that it has not used are missing here.</FromMemory>}
            {!data.fromMemory && !data.next && <StillInEffect stored={data.ruleSets.map((s) => s.id)} />}
            <List entries={data.ruleSets} search={search} live={live} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

// FromMemory says that the rules are those in effect on the server, or that there is no history, because the source cannot be read.
export function FromMemory({ history, children }: { history?: boolean; children?: ReactNode }) {
  return (
    <Alert color="yellow" variant="light" title="The rule source cannot be read" role="status">
      {history
        ? "The history is in the source, and is shown when it answers."
        : "Shown are the rules in effect on the server that answers you. They may be older than those in the source, and cannot be changed until it answers."}{" "}
      {children}
    </Alert>
  );
}

// StillInEffect names rule sets that servers have in effect and the source does not have: all, or one.
export function StillInEffect({ stored, only }: { stored: string[]; only?: string }) {
  const missing = notStored(useFleet().data, stored).filter(({ id }) => only === undefined || id === only);
  if (missing.length === 0) return null;
  return (
    <Alert color="red" variant="light" title="In effect, but not in the source" role="status">
      <ul className="plain">
        {missing.map(({ id, revisions }) => (
          <li key={id} className="breakable">
            Servers still apply {id}, revision {revisions.map(shownRevision).join(", ")}. The source does not have it: it may have lost data. Create the rule set again, or restore the source.
          </li>
        ))}
      </ul>
    </Alert>
  );
}

// Refused says why there are no buttons to change anything.
export function Refused({ why }: { why: string }) {
  return (
    <Text size="sm" c="dimmed" className="breakable">
      {why}
    </Text>
  );
}

function List({ entries, search, live }: { entries: Entry[]; search: string; live: Live | undefined }) {
  const [size, setSize] = useState(portion);
  const shown = entries.slice(0, size);
  const answers = useAllRules(shown);
  if (entries.length === 0) return <Empty>There are no rule sets in the source.</Empty>;
  const sections = shown.map((entry, i) => <RulesOf key={entry.id} entry={entry} answer={answers[i]!} search={search} live={live} />);
  const loading = answers.some((a) => a.isPending);
  const found = shown.some((entry, i) => matching(entry, answers[i]!, search).length > 0 || named(entry, search));
  return (
    <>
      {live?.problem && (
        <Text size="sm" c="dimmed">
          {live.problem}
        </Text>
      )}
      {sections}
      {!found && !loading && <Empty>No rule has this text.</Empty>}
      {loading && <Loading />}
      {entries.length > size && (
        <Group>
          <Text size="sm">
            Shown are the rules of {size} of {entries.length} rule sets.
          </Text>
          <Button size="xs" variant="default" onClick={() => setSize(size + portion)}>
            Show more
          </Button>
        </Group>
      )}
    </>
  );
}

type Answer = ReturnType<typeof useAllRules>[number];

function named(entry: Entry, search: string): boolean {
  return entry.id.toLowerCase().includes(search.trim().toLowerCase());
}

function matching(entry: Entry, answer: Answer, search: string) {
  return (answer.data?.set?.rules ?? []).filter((rule) => named(entry, search) || contains(rule, search));
}

function RulesOf({ entry, answer, search, live }: { entry: Entry; answer: Answer; search: string; live: Live | undefined }) {
  const rules = matching(entry, answer, search);
  if (rules.length === 0 && !named(entry, search)) return null;
  return (
    <section aria-label={`Rule set ${entry.id}`}>
      <Group justify="space-between" gap="xs" mb={6}>
        <Title order={2} size="h4" className="breakable">
          <Anchor inherit href={href(["rules", entry.id])}>
            {entry.id}
          </Anchor>
        </Title>
        <Saved entry={entry} />
      </Group>
      {answer.error && <Failure error={answer.error} />}
      {answer.data && (rules.length > 0 ? <RuleTable ruleSet={entry.id} rules={rules} live={live} /> : <Empty>It has no rules.</Empty>)}
    </section>
  );
}

// NewRuleSet asks for the name of a rule set and opens it; nothing is saved yet.
function NewRuleSet() {
  const [open, setOpen] = useState(false);
  const [id, setId] = useState("");
  const valid = /^[A-Za-z0-9._-]{1,64}$/.test(id);
  return (
    <>
      <Button size="xs" variant="default" onClick={() => setOpen(true)}>
        New rule set
      </Button>
      <Modal opened={open} onClose={() => setOpen(false)} title="New rule set">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (valid) navigate(["rules", id], { view: "yaml" });
          }}
        >
          <TextInput
            label="Name"
            description="1 to 64 letters, digits, dots, dashes and underscores."
            value={id}
            onChange={(e) => setId(e.currentTarget.value)}
            error={id !== "" && !valid ? "This is not a name of a rule set." : undefined}
            data-autofocus
            required
          />
          <Button type="submit" mt="md" disabled={!valid}>
            Go on
          </Button>
        </form>
      </Modal>
    </>
  );
}
