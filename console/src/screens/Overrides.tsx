import { Button, Group, Modal, NativeSelect, Text } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap, type Schemas } from "../api/client";
import { useRuleSets } from "../api/queries";
import { navigate, useRoute } from "../router";
import { isSignedIn, useWho } from "../session";
import { Ago } from "../ui/Ago";
import { DataTable, type Column } from "../ui/DataTable";
import { identityOf, numbersOf } from "../ui/overrides";
import { Page } from "../ui/Page";
import { RuleLink } from "../ui/RuleLink";
import { Empty, Failure, Loaded } from "../ui/states";
import { useMayNotWrite, useRuleSet } from "./rules/queries";

type Override = Schemas["OverrideDocument"];

// Overrides lists the overrides of a rule set, those that end soon first.
export function Overrides() {
  const sets = useRuleSets();
  const named = decodeURIComponent(useRoute().path.split("/")[2] ?? "");
  const ids = (sets.data?.ruleSets ?? []).map((s) => s.id);
  const usual = useWho().defaultRuleSet;
  const ruleSet = named || (usual && ids.includes(usual) ? usual : ids[0]);
  return (
    <Page
      title="Overrides"
      controls={
        ruleSet && (
          <NativeSelect
            size="xs"
            aria-label="Rule set"
            value={ruleSet}
            onChange={(e) => navigate(["overrides", e.currentTarget.value])}
            data={[...new Set([...ids, ruleSet])].sort()}
          />
        )
      }
    >
      <Loaded query={sets}>{() => (ruleSet ? <OverridesOf key={ruleSet} ruleSet={ruleSet} exists={ids.includes(ruleSet)} /> : <Empty>There are no rule sets.</Empty>)}</Loaded>
    </Page>
  );
}

function OverridesOf({ ruleSet, exists }: { ruleSet: string; exists: boolean }) {
  const refused = useMayNotWrite();
  const [deleting, setDeleting] = useState<Override>();
  const measures = new Map(useRuleSet(ruleSet).data?.set?.rules.map((r) => [r.id, r.cost]));
  const overrides = useInfiniteQuery({
    queryKey: ["overrides", ruleSet],
    queryFn: ({ pageParam }) =>
      unwrap(api.GET("/v1/rule-sets/{ruleSet}/overrides", { params: { path: { ruleSet }, query: { limit: 100, after: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    refetchInterval: (query) => (isSignedIn() && query.state.data?.pages.length === 1 ? 5000 : false),
  });
  return (
    <Loaded query={overrides}>
      {(data) => {
        const rows = data.pages.flatMap((page) => page.overrides);
        return (
          <>
            {rows.length === 0 ? (
              <Empty>{exists ? `${ruleSet} has no overrides. Callers shows who could have one.` : `There is no rule set ${ruleSet} in the source.`}</Empty>
            ) : (
              <DataTable label="Overrides" columns={columns(ruleSet, measures, refused ? undefined : setDeleting)} rows={rows} keyOf={(o) => o.id!} />
            )}
            {overrides.hasNextPage && (
              <Button variant="default" loading={overrides.isFetchingNextPage} onClick={() => void overrides.fetchNextPage()}>
                Show more
              </Button>
            )}
            {refused && (
              <Text size="sm" c="dimmed">
                {refused}
              </Text>
            )}
            {deleting && <Delete ruleSet={ruleSet} override={deleting} close={() => setDeleting(undefined)} />}
          </>
        );
      }}
    </Loaded>
  );
}

function columns(ruleSet: string, measures: Map<string, string | undefined>, remove: ((o: Override) => void) | undefined): Column<Override>[] {
  const shown: Column<Override>[] = [
    { title: "Ends", cell: (o) => (o.until ? <Ago time={o.until} /> : "never") },
    { title: "Caller", cell: (o) => <span className="clamped">{identityOf(o.identity)}</span> },
    { title: "Rule", cell: (o) => <RuleLink ruleSet={ruleSet} rule={o.ruleId} /> },
    { title: "Numbers", cell: (o) => numbersOf(o, measures.get(o.ruleId)) },
    { title: "Why", cell: (o) => <span className="breakable">{o.reason ?? "–"}</span> },
    { title: "By", cell: (o) => <span className="breakable">{o.author ?? "–"}</span> },
  ];
  if (remove) {
    shown.push({
      title: "What to do",
      cell: (o) => (
        <Button size="compact-xs" variant="default" onClick={() => remove(o)} aria-label={`Delete the override of ${identityOf(o.identity)}`}>
          Delete
        </Button>
      ),
    });
  }
  return shown;
}

function Delete({ ruleSet, override: o, close }: { ruleSet: string; override: Override; close: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE("/v1/rule-sets/{ruleSet}/overrides/{override}", { params: { path: { ruleSet, override: o.id! } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["overrides", ruleSet] });
      close();
    },
  });
  return (
    <Modal opened onClose={close} title={`Delete the override of ${identityOf(o.identity)}?`}>
      <Text size="sm" mb="md">
        The numbers of {o.ruleId} apply again. What was used of the bucket carries over.
      </Text>
      {remove.error && <Failure error={remove.error} />}
      <Group gap="xs" mt="sm">
        <Button color="red" loading={remove.isPending} onClick={() => remove.mutate()}>
          Delete
        </Button>
        <Button variant="default" onClick={close}>
          Cancel
        </Button>
      </Group>
    </Modal>
  );
}
