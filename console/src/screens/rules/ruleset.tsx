import { Alert, Anchor, Button, Group, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { takeDraft } from "../../draft";
import { href, navigate, useRoute } from "../../router";
import { shownRevision } from "../../ui/format";
import { Page } from "../../ui/Page";
import { Failure, Loaded } from "../../ui/states";
import { Conflict } from "./Conflict";
import { History } from "./History";
import { useHead, useMayNotWrite, useRuleSet, useWork, type Current, type Work } from "./queries";
import { Review } from "./Review";
import { FromMemory, Refused, StillInEffect } from "./RuleSets";
import { RulesView } from "./RulesView";
import { Saved } from "./Saved";
import { read, textOf, withRules } from "./text";
import { YamlView } from "./YamlView";

const views = { "": "Rules", yaml: "YAML", history: "History" } as const;
export type View = keyof typeof views | "review";

// Part is what each view of a rule set gets.
export interface Part {
  id: string;
  current: Current;
  work: Work | undefined;
  setWork: (work: Work | undefined) => void;
  // show goes to another view, with a notice there.
  show: (view: View, notice?: string) => void;
  // refused says why nothing can be changed, or is empty.
  refused: string;
}

// RuleSetPage is one rule set: its rules, its text, its history, and a change before it
// is saved.
export default function RuleSetPage({ id }: { id: string }) {
  const current = useRuleSet(id);
  return (
    <Page
      title={id}
      controls={
        <Anchor size="sm" href={href("/rules")}>
          All rule sets
        </Anchor>
      }
    >
      <Loaded query={current}>{(data) => <Views id={id} current={data} />}</Loaded>
    </Page>
  );
}

function Views({ id, current }: { id: string; current: Current }) {
  const view = (useRoute().query.get("view") ?? "") as View;
  const [work, setWork] = useWork(id);
  const [notice, setNotice] = useState({ view, text: "" });
  const forbidden = useMayNotWrite();
  const refused = forbidden || (current.fromMemory ? "The rules cannot be changed while their source cannot be read." : "");
  const show = (next: View, text = "") => {
    setNotice({ view: next, text });
    navigate(["rules", id], { view: next });
  };
  const part: Part = { id, current, work, setWork, show, refused };
  const failure = useDraft(part);
  const conflict = work !== undefined && work.base.revision !== current.revision;
  return (
    <>
      <Head id={id} current={current} view={view} />
      {current.fromMemory ? <FromMemory history={view === "history"} /> : refused && <Refused why={refused} />}
      {!current.set && <StillInEffect stored={[]} only={id} />}
      {failure && <Failure error={failure} />}
      {notice.text && notice.view === view && (
        <Alert color="green" variant="light" role="status" withCloseButton closeButtonLabel="Close" onClose={() => setNotice({ view, text: "" })}>
          {notice.text}
        </Alert>
      )}
      {work && view !== "review" && (view !== "yaml" || conflict) && <Unsaved {...part} conflict={conflict} />}
      {view === "review" ? conflict ? <Conflict {...part} work={work} /> : <Review {...part} /> : null}
      {view === "yaml" && <YamlView {...part} />}
      {view === "history" && !current.fromMemory && <History {...part} />}
      {!["review", "yaml", "history"].includes(view) && <RulesView {...part} />}
    </>
  );
}

// useDraft takes a draft that another screen proposes, puts it on top of the text and
// shows the difference. It returns why it could not.
function useDraft({ id, current, work, setWork, show }: Part): Error | undefined {
  const [failure, setFailure] = useState<Error>();
  useEffect(() => {
    const draft = takeDraft(id);
    if (!draft) return;
    const base = work?.base ?? current;
    try {
      if (!base.set) throw new Error(`There is no rule set ${id}.`);
      const source = read(work?.text ?? textOf(base.set));
      if (!source.value) throw new Error("The unsaved text is no YAML: correct it first.");
      setWork({ base, text: withRules(source, draft.apply(source.value.rules)), title: draft.title });
      show("review");
    } catch (error) {
      setFailure(error as Error);
    }
    // A draft is taken once, when the rule set is there.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [id]);
  return failure;
}

function Head({ id, current, view }: { id: string; current: Current; view: View }) {
  const head = useHead(id, current.revision).data;
  return (
    <Group justify="space-between" gap="xs">
      <nav className="views" aria-label="Views of the rule set">
        {Object.entries(views).map(([name, title]) => (
          <a key={name} href={href(["rules", id], { view: name })} aria-current={name === view ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {head ? (
        <Saved entry={head} />
      ) : (
        <Text size="xs" c="dimmed">
          {current.revision > 0 ? `Revision ${shownRevision(current.revision)}` : "Not saved"}
        </Text>
      )}
    </Group>
  );
}

function Unsaved({ setWork, show, conflict }: Part & { conflict: boolean }) {
  return (
    <Alert color={conflict ? "orange" : "blue"} variant="light" role="status" title={conflict ? "Changed by another operator" : "Unsaved changes"}>
      <Group gap="xs">
        <Text size="sm">{conflict ? "Another operator has saved this rule set. Your changes are not saved." : "They are not in effect."}</Text>
        <Button size="xs" onClick={() => show("review")}>
          {conflict ? "See both sides" : "Review"}
        </Button>
        <Button size="xs" variant="default" onClick={() => setWork(undefined)}>
          Discard
        </Button>
      </Group>
    </Alert>
  );
}
