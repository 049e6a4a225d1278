import { Button, Group, Paper, Stack, Text, TextInput, Title } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ApiError, asText, exactly, unwrap, type Schemas } from "../../api/client";
import { href, useRoute } from "../../router";
import { Ago } from "../../ui/Ago";
import { DataTable, type Column } from "../../ui/DataTable";
import { shownRevision } from "../../ui/format";
import { Empty, Failure, Loaded, Loading } from "../../ui/states";
import { Diff } from "./Diff";
import type { Part } from "./ruleset";
import { textOf } from "./text";

type Entry = Schemas["Entry"];

// History lists the revisions of a rule set and compares one with the current.
export function History(part: Part) {
  const { id, current } = part;
  const chosen = Number(useRoute().query.get("revision"));
  const history = useInfiniteQuery({
    queryKey: ["history", id, current.revision],
    queryFn: ({ pageParam }) => unwrap(api.GET("/v1/rule-sets/{ruleSet}/revisions", { params: { path: { ruleSet: id }, query: { limit: 50, before: pageParam } } })),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => page.next,
  });
  const none = history.error instanceof ApiError && history.error.status === 404; // the source never had the rule set, or lost it
  if (none) return <Empty>There are no revisions.</Empty>;
  if (history.error) return <Failure error={history.error} retry={() => void history.refetch()} />;
  if (!history.data) return <Loading />;
  const entries = history.data.pages.flatMap((page) => page.revisions);
  if (entries.length === 0) return <Empty>There are no revisions.</Empty>;
  return (
    <>
      {chosen > 0 && <Compare key={chosen} part={part} revision={chosen} />}
      <DataTable label="Revisions" columns={columns(part, chosen)} rows={entries} keyOf={(e) => String(e.revision)} />
      {history.hasNextPage && (
        <Group>
          <Button size="xs" variant="default" loading={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </>
  );
}

function columns({ id, current }: Part, chosen: number): Column<Entry>[] {
  return [
    { title: "What", cell: (e) => `Revision ${shownRevision(e.revision)}` },
    { title: "When", cell: (e) => <Ago time={e.at} /> },
    { title: "By", cell: (e) => <span className="breakable">{e.author ?? "unknown"}</span> },
    { title: "Comment", cell: (e) => <span className="breakable">{[e.deleted && "deleted", e.comment].filter(Boolean).join(" ") || "–"}</span> },
    {
      title: "What to do",
      cell: (e) =>
        e.revision === current.revision ? (
          "current"
        ) : (
          <Button
            size="compact-xs"
            variant="default"
            component="a"
            href={href(["rules", id], { view: "history", revision: e.revision })}
            aria-label={`Compare revision ${e.revision} with the current`}
            aria-current={e.revision === chosen ? "true" : undefined}
          >
            Compare
          </Button>
        ),
    },
  ];
}

// Compare shows what restoring a revision would change.
function Compare({ part, revision }: { part: Part; revision: number }) {
  const { id, current } = part;
  const old = useQuery({
    queryKey: ["revision", id, revision],
    queryFn: async () => (await exactly<Schemas["Version"]>(api.GET("/v1/rule-sets/{ruleSet}/revisions/{revision}", { ...asText, params: { path: { ruleSet: id, revision } } }))).data,
    staleTime: Infinity,
  });
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Title order={2} size="h4">
          Restore revision {revision}
        </Title>
        <Loaded query={old}>
          {({ ruleSet }) =>
            ruleSet ? (
              <>
                <Text size="sm">What would change in the current rules:</Text>
                <Diff label={`From the current revision to revision ${revision}`} before={current.set ? textOf(current.set) : ""} after={textOf(ruleSet)} />
                {!part.refused && <Restore part={part} revision={revision} />}
              </>
            ) : (
              <Empty>This revision deleted the rule set.</Empty>
            )
          }
        </Loaded>
      </Stack>
    </Paper>
  );
}

function Restore({ part: { id, current, show }, revision }: { part: Part; revision: number }) {
  const [comment, setComment] = useState("");
  const queries = useQueryClient();
  const refresh = () => Promise.all([queries.invalidateQueries({ queryKey: ["rule-set", id] }), queries.invalidateQueries({ queryKey: ["rule-sets"] })]);
  const restore = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST("/v1/rule-sets/{ruleSet}/revisions/{revision}/restore", {
          params: {
            path: { ruleSet: id, revision },
            query: { comment: comment.trim() || undefined },
            header: current.revision > 0 ? { "If-Match": `"${current.revision}"` } : { "If-None-Match": "*" },
          },
        }),
      ),
    onSuccess: async (entry) => {
      show("history", `Restored revision ${revision} as revision ${entry.revision}.`);
      await refresh();
    },
    // The difference is shown again, with the revision that is current now.
    onError: (error) => (error instanceof ApiError && error.status === 412 ? refresh() : undefined),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        restore.mutate();
      }}
    >
      <Stack gap="xs">
        <TextInput label="Comment" description="The reason, for the history." maxLength={1024} value={comment} onChange={(e) => setComment(e.currentTarget.value)} />
        {restore.error && <Failure error={restore.error} />}
        <Group>
          <Button type="submit" loading={restore.isPending}>
            Restore revision {revision}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
