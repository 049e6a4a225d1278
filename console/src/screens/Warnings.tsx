import { Text } from "@mantine/core";
import { api, unwrap, type Schemas } from "../api/client";
import { useLive } from "../api/useLive";
import { useWho } from "../session";
import { Ago } from "../ui/Ago";
import { CallerName } from "../ui/CallerName";
import { DataTable, type Column } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { RuleLink } from "../ui/RuleLink";
import { Empty, Loaded } from "../ui/states";

type Warning = Schemas["Warning"];

export function Warnings() {
  const who = useWho();
  const warnings = useLive(["warnings"], () => unwrap(api.GET("/v1/warnings")), 5000);
  return (
    <Page title="Warnings">
      <Loaded query={warnings}>
        {(data) =>
          data.warnings.length === 0 ? (
            <Empty>No warnings are stored. A limit with warnAt warns when it reaches a level.</Empty>
          ) : (
            <>
              <DataTable label="Limits that reached a warning level" columns={columns} rows={data.warnings} keyOf={(w) => w.id} />
              {data.warnings.some((w) => !w.identity) && (
                <Text size="sm" c="dimmed">
                  Callers without a name are shown as the keys of their buckets. Names need the setting events.identities{!who.roles.includes("identities") && " and the role identities"}. API keys have none.
                </Text>
              )}
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

const columns: Column<Warning>[] = [
  { title: "When", cell: (w) => <Ago time={w.time} /> },
  { title: "Rule", cell: (w) => <RuleLink ruleSet={w.ruleSet} rule={w.rule} /> },
  { title: "Limit", cell: (w) => w.limit },
  { title: "Caller", cell: (w) => <CallerName caller={w} /> },
  { title: "At", number: true, cell: (w) => w.percent + " %" },
  { title: "Used", number: true, cell: (w) => w.text },
  { title: "Ends", cell: (w) => <Ago time={w.ends} /> },
];
