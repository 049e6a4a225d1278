import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { Section } from "../../ui/Page";
import { Diff } from "./Diff";
import { Marks } from "./Marks";
import { merge } from "./merge";
import { useHead, type Work } from "./queries";
import type { Part } from "./ruleset";
import { Saved } from "./Saved";
import { read, textOf, type RuleSet } from "./text";

// Conflict shows a change and what another operator has saved meanwhile, and how to go
// on.
export function Conflict({ id, current, work, setWork, show }: Part & { work: Work }) {
  const head = useHead(id, current.revision).data;
  const base = work.base.set ? textOf(work.base.set) : "";
  const mine = read(work.text);
  const takeTheirs = () => {
    setWork(undefined);
    show("", "Your changes were discarded.");
  };
  return (
    <Stack gap="md">
      <Alert color="orange" variant="light" role="alert" title="Changed by another operator">
        <Text size="sm">
          {current.set ? `Your changes are based on revision ${work.base.revision}, the current one is ${current.revision}.` : "The rule set was deleted."} Nothing of yours is saved.
        </Text>
        {head && <Saved entry={head} />}
      </Alert>
      <div className="grid">
        <Section title="Mine">
          <Diff label="My changes" before={base} after={work.text} />
        </Section>
        <Section title="Theirs">
          <Diff label="Their changes" before={base} after={current.set ? textOf(current.set) : ""} />
        </Section>
      </div>
      {!mine.value && <Marks marks={mine.marks} />}
      <Group gap="xs">
        <Button onClick={() => onTop(mine.value!)} disabled={!mine.value}>
          Put mine on top of theirs
        </Button>
        <Button variant="default" onClick={takeTheirs}>
          Take theirs, discard mine
        </Button>
        <Button variant="default" onClick={() => show("yaml")}>
          Edit mine
        </Button>
      </Group>
      <Text size="sm" c="dimmed">
        Mine on top keeps what only they changed; where both changed the same field it takes mine. You see the difference before it is saved.
      </Text>
    </Stack>
  );

  function onTop(value: RuleSet): void {
    const plain = (set: RuleSet | undefined) => (set ? read(textOf(set)).value! : { id, rules: [] });
    const merged = merge(plain(work.base.set), value, plain(current.set));
    setWork({ ...work, base: current, text: textOf(merged.value) });
    show("review", merged.both.length > 0 ? `Both changed ${merged.both.join(", ")}: yours is taken.` : "Nothing was changed by both.");
  }
}
