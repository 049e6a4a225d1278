import { Button, Group, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { api, ApiError, unwrap } from "../../api/client";
import { Empty, Failure, Loading } from "../../ui/states";
import { Diff } from "./Diff";
import { Marks } from "./Marks";
import { equal } from "./merge";
import { validate, type Work } from "./queries";
import type { Part } from "./ruleset";
import { marksOf, read, textOf, type Source } from "./text";

// Review shows a change before it is saved.
export function Review(part: Part) {
  if (!part.work) return <Empty>There are no unsaved changes.</Empty>;
  return <ReviewOf {...part} work={part.work} />;
}

function ReviewOf(part: Part & { work: Work }) {
  const { work } = part;
  const source = read(work.text);
  const before = work.base.set ? textOf(work.base.set) : "";
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Title order={2} size="h4" className="breakable">
          {work.title ?? "Your changes"}
        </Title>
        <Diff label="Changes" before={before} after={work.text} />
        <Checked part={part} source={source} />
      </Stack>
    </Paper>
  );
}

// Checked is what the server says of the change, and the way to save it.
function Checked({ part, source }: { part: Part & { work: Work }; source: Source }) {
  const { value } = source;
  const answer = useQuery({ queryKey: ["validate", source.text], queryFn: () => validate(value!), enabled: value !== undefined, staleTime: Infinity });
  const unsaved = (about: ReactNode) => (
    <>
      {about}
      <Group gap="xs">
        <OtherWays part={part} />
      </Group>
    </>
  );
  if (!value) return unsaved(<Marks marks={source.marks} />);
  if (answer.error) return unsaved(<Failure error={answer.error} retry={() => void answer.refetch()} />);
  if (!answer.data) return unsaved(<Loading />);
  if (!answer.data.valid) return unsaved(<Marks marks={marksOf(source, answer.data.errors ?? [])} />);
  if (part.work.base.set && equal(read(textOf(part.work.base.set)).value, value)) return unsaved(<Text size="sm">There is nothing to save.</Text>);
  if (part.refused) return unsaved(null); // the page says why
  return (
    <>
      <Marks warnings marks={marksOf(source, answer.data.warnings ?? [])} />
      <SaveForm part={part} source={source} />
    </>
  );
}

// OtherWays are the ways to go on other than to save.
function OtherWays({ part: { setWork, show } }: { part: Part }) {
  const discard = () => {
    setWork(undefined);
    show("");
  };
  return (
    <>
      <Button variant="default" onClick={() => show("yaml")}>
        Edit as YAML
      </Button>
      <Button variant="default" onClick={discard}>
        Discard
      </Button>
    </>
  );
}

function SaveForm({ part, source }: { part: Part & { work: Work }; source: Source }) {
  const { id, work, setWork, show } = part;
  const [comment, setComment] = useState(work.title ?? "");
  const queries = useQueryClient();
  const revision = work.base.revision;
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ["rule-set", id] }), queries.invalidateQueries({ queryKey: ["rule-sets"] })]);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        api.PUT("/v1/rule-sets/{ruleSet}", {
          params: { path: { ruleSet: id }, query: { comment: comment.trim() || undefined }, header: revision > 0 ? { "If-Match": `"${revision}"` } : { "If-None-Match": "*" } },
          body: source.value!,
        }),
      ),
    onSuccess: async (entry) => {
      setWork(undefined);
      await refresh(); // the next change is based on what was saved
      show("", `Saved as revision ${entry.revision}.`);
    },
    // The current revision is read again, and both sides are shown.
    onError: (error) => (error instanceof ApiError && error.status === 412 ? refresh() : undefined),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Stack gap="xs">
        <TextInput label="Comment" description="The reason, for the history." maxLength={1024} value={comment} onChange={(e) => setComment(e.currentTarget.value)} />
        {save.error && <Refusal error={save.error} source={source} />}
        <Group gap="xs">
          <Button type="submit" loading={save.isPending}>
            Save
          </Button>
          <OtherWays part={part} />
        </Group>
      </Stack>
    </form>
  );
}

// Refusal shows why a change was not saved, at the line where it is known.
function Refusal({ error, source }: { error: Error; source: Source }) {
  const problems = (error instanceof ApiError ? error.problem?.errors : undefined) ?? [];
  if (problems.length === 0) return <Failure error={error} />;
  return <Marks marks={marksOf(source, problems)} />;
}
