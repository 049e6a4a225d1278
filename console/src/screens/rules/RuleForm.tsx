import { Alert, Button, Group, Modal, SegmentedControl, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState, type FormEvent } from "react";
import type { Schemas } from "../../api/client";
import { written } from "../../ui/amount";
import { Failure } from "../../ui/states";
import { validate } from "./queries";
import type { Part } from "./ruleset";
import { editRule, read, textOf, type Edit, type Rule } from "./text";
import { duration, limitOf } from "./words";

type Band = NonNullable<Rule["bands"]>[number];
type Detail = Schemas["ProblemDetail"];

// periodField is the field with the time of a band.
function periodField(band: Band): "refill" | "refillSeconds" | "period" | "hold" {
  if (band.kind === "concurrency") return "hold";
  if (band.kind === "quota" || band.kind === "sliding-window") return "period";
  return band.refill === undefined && band.refillSeconds !== undefined ? "refillSeconds" : "refill";
}

const periodLabels = { refill: "Every", refillSeconds: "Every", period: "Period", hold: "Held at most" };

// RuleForm changes what is changed most: whether a rule is enabled and enforced, and
// its limits. The rest is in the text.
export function RuleForm({ part, rule, close }: { part: Part; rule: Rule; close: () => void }) {
  const { current, work, setWork, show } = part;
  const base = work?.base ?? current;
  const source = read(work?.text ?? textOf(base.set!));
  const known = source.value?.rules.find((r) => r.id === rule.id);
  return (
    <Modal opened onClose={close} title={`Change ${rule.id}`} size="lg">
      {known ? (
        <Fields
          rule={known}
          save={async (edits) => {
            const text = editRule(source, rule.id, edits);
            const value = read(text).value!;
            const index = value.rules.findIndex((r) => r.id === rule.id);
            const answer = await validate(value);
            const errors = (answer.errors ?? []).filter((e) => e.path?.[0] === "rules" && e.path[1] === index);
            if (errors.length > 0) return errors.map((e) => ({ ...e, path: e.path?.slice(2) }));
            setWork({ ...work, base, text });
            show("review");
            return [];
          }}
        />
      ) : (
        <Text size="sm">The unsaved text is no YAML, or has no rule {rule.id}. Correct it first.</Text>
      )}
    </Modal>
  );
}

function Fields({ rule, save }: { rule: Rule; save: (edits: Edit[]) => Promise<Detail[]> }) {
  const [enabled, setEnabled] = useState(rule.enabled ?? true);
  const [mode, setMode] = useState<string>(rule.mode ?? "enforce");
  const [bands, setBands] = useState(() => (rule.bands ?? []).map((band) => fieldsOf(band, rule.cost)));
  const [errors, setErrors] = useState<Detail[]>([]);
  const [failure, setFailure] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const alternative = rule.countRefused || rule.mode === "alternative"; // other rules cannot have this mode
  const edits: Edit[] = [];
  if (enabled !== (rule.enabled ?? true)) edits.push({ path: ["enabled"], value: enabled });
  if (mode !== (rule.mode ?? "enforce")) edits.push({ path: ["mode"], value: mode === "enforce" ? undefined : mode });
  bands.forEach((fields, i) => edits.push(...bandEdits(rule.bands![i]!, rule.cost, fields, i)));

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      setErrors(await save(edits));
    } catch (error) {
      setFailure(error as Error);
    }
    setBusy(false);
  }

  const atBands = errors.filter((e) => e.path?.[0] === "bands" && e.path.length > 2);
  const others = errors.filter((e) => !atBands.includes(e));
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="md">
        <Switch label="Enabled" checked={enabled} onChange={(e) => setEnabled(e.currentTarget.checked)} data-autofocus />
        {rule.action === undefined || rule.action === "limit" ? (
          <div>
            <Text size="sm" fw={500}>
              Mode
            </Text>
            <SegmentedControl
              aria-label="Mode"
              value={mode}
              onChange={setMode}
              data={[
                { value: "enforce", label: "Enforce" },
                { value: "shadow", label: "Shadow" },
                ...(alternative ? [{ value: "alternative", label: "Alternative" }] : []),
              ]}
            />
            <Text size="xs" c="dimmed">
              A rule in shadow rejects nothing. What it would reject is counted.
              {alternative && " Alternative rules reject a request if all of them that apply are over."}
            </Text>
          </div>
        ) : null}
        {bands.map((fields, i) => (
          <BandFields key={i} band={rule.bands![i]!} measure={rule.cost} fields={fields} errors={atBands.filter((e) => e.path?.[1] === i)} change={(next) => setBands(bands.map((b, j) => (j === i ? next : b)))} />
        ))}
        {others.length > 0 && (
          <Alert color="red" variant="light" role="alert">
            {others.map((e, i) => (
              <Text key={i} size="sm" className="breakable">
                {e.location?.replace(/^body\./, "")}: {e.message}
              </Text>
            ))}
          </Alert>
        )}
        {failure && <Failure error={failure} />}
        <Group>
          <Button type="submit" loading={busy} disabled={edits.length === 0}>
            Review the change
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

// The fields of a band as they are typed.
interface BandText {
  capacity: string;
  refillTokens: string;
  period: string;
}

function fieldsOf(band: Band, measure: string | undefined): BandText {
  const text = (n: number) => String(written(n, measure));
  return { capacity: text(band.capacity), refillTokens: text(band.refillTokens ?? band.capacity), period: periodText(band) };
}

function periodText(band: Band): string {
  const field = periodField(band);
  return field === "refillSeconds" ? duration(band.refillSeconds!) : (band[field] ?? "");
}

// bandEdits are the fields that were changed. A bucket that held what it is refilled
// by does so afterwards, unless both were changed.
function bandEdits(band: Band, measure: string | undefined, fields: BandText, index: number): Edit[] {
  const was = fieldsOf(band, measure);
  const at = (name: string, value: unknown): Edit => ({ path: ["bands", index, name], value });
  const edits: Edit[] = [];
  if (fields.capacity !== was.capacity) edits.push(at("capacity", numberOr(fields.capacity)));
  if (fields.refillTokens !== was.refillTokens) edits.push(at("refillTokens", numberOr(fields.refillTokens)));
  if (fields.period !== was.period) {
    const field = periodField(band);
    if (field === "refillSeconds") edits.push(at("refillSeconds", undefined), at("refill", fields.period.trim()));
    else edits.push(at(field, fields.period.trim()));
  }
  return edits;
}

// numberOr is a number, or the text: an amount of money, or for the server to refuse.
function numberOr(text: string): number | string {
  return /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text;
}

interface BandProps {
  band: Band;
  measure: string | undefined;
  fields: BandText;
  errors: Detail[];
  change: (next: BandText) => void;
}

function BandFields({ band, measure, fields, errors, change }: BandProps) {
  const bucket = band.kind === undefined || band.kind === "token-bucket";
  const error = (...names: string[]) => errors.find((e) => names.includes(String(e.path?.[2])))?.message;
  const linked = bucket && fields.refillTokens === fields.capacity;
  return (
    <fieldset className="band">
      <legend>{band.label ?? limitOf(band, measure)}</legend>
      <div className="band-fields">
        <TextInput
          label={bucket ? "Capacity" : "Limit"}
          inputMode="numeric"
          value={fields.capacity}
          error={error("capacity")}
          onChange={(e) => change({ ...fields, capacity: e.currentTarget.value, refillTokens: linked ? e.currentTarget.value : fields.refillTokens })}
        />
        {bucket && <TextInput label="Refilled by" inputMode="numeric" value={fields.refillTokens} error={error("refillTokens")} onChange={(e) => change({ ...fields, refillTokens: e.currentTarget.value })} />}
        <TextInput label={periodLabels[periodField(band)]} value={fields.period} error={error("refill", "refillSeconds", "period", "hold")} onChange={(e) => change({ ...fields, period: e.currentTarget.value })} />
      </div>
    </fieldset>
  );
}
