import { Button, Group, Modal, SegmentedControl, Stack, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ApiError, unwrap, type Schemas } from "../api/client";
import type { Identity } from "../identity";
import { navigate } from "../router";
import { currencyOf, parsed, written } from "../ui/amount";
import { identityOf, overridable } from "../ui/overrides";
import { Failure, Loaded } from "../ui/states";

type Band = Schemas["BandDocument"];

interface Props {
  ruleSet: string;
  rule: string;
  identity: Identity;
  close: () => void;
}

// OverrideForm gives one caller other numbers of a rule.
export function OverrideForm(props: Props) {
  const { ruleSet, rule, identity, close } = props;
  const limit = useQuery({
    queryKey: ["rule", ruleSet, rule],
    queryFn: () => unwrap(api.GET("/v1/rule-sets/{ruleSet}/rules/{rule}", { params: { path: { ruleSet, rule } } })),
  });
  return (
    <Modal opened onClose={close} title={`Override ${rule} for ${identityOf({ ...identity })}`}>
      <Loaded query={limit}>{(found) => <Form {...props} limits={overridable(found.bands ?? [])} measure={found.cost} />}</Loaded>
    </Modal>
  );
}

function Form({ ruleSet, rule, identity, close, limits, measure }: Props & { limits: Band[]; measure: string | undefined }) {
  const [kind, setKind] = useState("times");
  const [times, setTimes] = useState("2");
  const [bands, setBands] = useState(limits);
  const [until, setUntil] = useState(inAnHour);
  const [reason, setReason] = useState("");
  const queries = useQueryClient();
  // The first attempt is for a caller without an override: another operator's is replaced only if asked for.
  const save = useMutation({
    mutationFn: (revision?: number) =>
      unwrap(
        api.PUT("/v1/rule-sets/{ruleSet}/overrides", {
          params: { path: { ruleSet } },
          body: {
            overrides: [
              {
                ruleId: rule,
                identity: { ...identity },
                ...(kind === "times" ? { times: Number(times) } : { bands }),
                ...(until && { until: new Date(until).toISOString() }),
                ...(reason && { reason }),
                ...(revision && { revision }),
              },
            ],
          },
        }),
      ),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["overrides", ruleSet] });
      close();
      navigate(["overrides", ruleSet]);
    },
  });
  const exists = save.error instanceof ApiError && save.error.status === 412;
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate(exists ? undefined : -1);
      }}
    >
      <Stack gap="sm">
        <SegmentedControl
          aria-label="Kind of numbers"
          value={kind}
          onChange={setKind}
          data={[
            { value: "times", label: "Times" },
            { value: "numbers", label: "Numbers" },
          ]}
        />
        {kind === "times" ? (
          <NumberOf label="Times" description="Multiplies capacities and refills." value={times} change={setTimes} />
        ) : (
          bands.map((band, i) => <BandFields key={i} band={band} measure={measure} limit={limits[i]!} change={(b) => setBands(bands.with(i, b))} />)
        )}
        <TextInput type="datetime-local" label="Ends" description="In the time of this browser. Empty means never." value={until} onChange={(e) => setUntil(e.currentTarget.value)} />
        <TextInput label="Reason" value={reason} onChange={(e) => setReason(e.currentTarget.value)} maxLength={1000} />
        {save.error && <Failure error={save.error} />}
        <Group gap="xs">
          <Button type="submit" loading={save.isPending}>
            {exists ? "Replace the existing override" : "Save"}
          </Button>
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

// BandFields are the numbers of a band: one if the rule has one.
function BandFields({ band, measure, limit, change }: { band: Band; measure: string | undefined; limit: Band; change: (band: Band) => void }) {
  const name = band.label ? ` of ${band.label}` : "";
  const { refillTokens } = band;
  const separate = refillTokens !== undefined && limit.refillTokens !== limit.capacity;
  return (
    <>
      <AmountOf
        label={`Capacity${name}`}
        measure={measure}
        value={limit.capacity}
        change={(n) => change({ ...band, capacity: n, ...(refillTokens !== undefined && !separate && { refillTokens: n }) })}
      />
      {separate && <AmountOf label={`Refill${name}`} measure={measure} value={limit.refillTokens ?? 0} change={(n) => change({ ...band, refillTokens: n })} />}
    </>
  );
}

// AmountOf is a number of what the rule counts: money as it is written. The server refuses other texts.
function AmountOf({ label, measure, value, change }: { label: string; measure: string | undefined; value: number; change: (n: number) => void }) {
  const [text, setText] = useState(String(written(value, measure)));
  if (!currencyOf(measure)) return <NumberOf label={label} value={text} change={(n) => { setText(n); change(Number(n)); }} />;
  const typed = (next: string) => {
    setText(next);
    change((/^\d+$/.test(next) ? Number(next) : parsed(next, measure)) as number);
  };
  return <TextInput label={label} required value={text} onChange={(e) => typed(e.currentTarget.value)} />;
}

function NumberOf({ change, ...rest }: { label: string; description?: string; value: number | string; change: (value: string) => void }) {
  return <TextInput type="number" step="any" min={0} required {...rest} onChange={(e) => change(e.currentTarget.value)} />;
}

// inAnHour is as an input of a moment has it, in local time.
function inAnHour(): string {
  const then = new Date(Date.now() + 3600_000);
  return new Date(then.getTime() - then.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
