import { Badge, Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "../api/client";
import { isSignedIn } from "../session";
import { Ago } from "../ui/Ago";
import { DataTable, type Column } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { RuleLink } from "../ui/RuleLink";
import { Empty, Loaded } from "../ui/states";
import { Changes } from "../ui/Changes";

type Record = Schemas["Record"];

const pageSize = 50;

export function Audit() {
  const audit = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ pageParam }) => unwrap(api.GET("/v1/audit", { params: { query: { limit: pageSize, before: pageParam } } })),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => page.next,
    // Pages that were read already do not move under the reader.
    refetchInterval: (query) => (isSignedIn() && query.state.data?.pages.length === 1 ? 5000 : false),
  });
  return (
    <Page
      title="Audit"
      controls={
        <Button size="xs" variant="default" loading={audit.isRefetching} onClick={() => void audit.refetch()}>
          Refresh
        </Button>
      }
    >
      <Loaded query={audit}>
        {(data) => {
          const records = data.pages.flatMap((page) => page.records);
          if (records.length === 0) return <Empty>No change was made and no attempt rejected since this server started.</Empty>;
          return (
            <>
              <DataTable label="Changes and rejected attempts" columns={columns} rows={records} keyOf={(r) => String(r.seq)} />
              {audit.hasNextPage && (
                <Button variant="default" loading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
                  Show older
                </Button>
              )}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

// What operations do, in the past tense of a log. Others are shown by their id.
const operations: { [id: string]: string } = {
  "put-rule-set": "Save rule set",
  "delete-rule-set": "Delete rule set",
  "put-rule": "Save rule",
  "delete-rule": "Delete rule",
  "restore-revision": "Restore revision",
  "put-overrides": "Save overrides",
  "delete-override": "Delete override",
  "reset-buckets": "Reset buckets",
};

const colors = { changed: "green", unchanged: "gray", refused: "yellow", failed: "red" } as const;

const columns: Column<Record>[] = [
  { title: "When", cell: (r) => <Ago time={r.time} /> },
  { title: "Who", cell: (r) => <Who record={r} /> },
  { title: "What", cell: (r) => operations[r.operation] ?? r.operation },
  { title: "Where", cell: (r) => <Where record={r} /> },
  {
    title: "Result",
    cell: (r) => (
      <Badge size="sm" variant="light" color={colors[r.outcome]}>
        {r.outcome === "refused" ? "rejected" : r.outcome}
      </Badge>
    ),
  },
  { title: "Details", cell: (r) => <Details record={r} /> },
];

function Who({ record }: { record: Record }) {
  return (
    <span className="breakable" title={record.from ? "From " + record.from : undefined}>
      {record.who}
    </span>
  );
}

function Where({ record: r }: { record: Record }) {
  if (!r.ruleSet) return "–";
  return (
    <>
      {r.rule ? <RuleLink ruleSet={r.ruleSet} rule={r.rule} /> : <span className="breakable">{r.ruleSet}</span>}
      {r.after !== undefined && <div>{r.before !== undefined ? `revision ${r.before} → ${r.after}` : `revision ${r.after}`}</div>}
      {r.key && <div className="breakable">bucket {r.key}</div>}
    </>
  );
}

function Details({ record: r }: { record: Record }) {
  return (
    <>
      {r.comment && <div className="breakable">“{r.comment}”</div>}
      {r.detail && <div className="breakable">{r.detail}</div>}
      <Changes changes={r.changes} />
    </>
  );
}
