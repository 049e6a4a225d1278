import { Button, Group, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";
import { CodeEditor, type EditorHandle } from "./CodeEditor";
import { Marks } from "./Marks";
import { validate } from "./queries";
import type { Part } from "./ruleset";
import { marksOf, read, textOf, type Mark } from "./text";

// YamlView is the editor of the text of a rule set.
export function YamlView({ id, current, work, setWork, show, refused }: Part) {
  const base = work?.base ?? current;
  const saved = base.set ? textOf(base.set) : textOf({ id, rules: [] });
  const shown = work?.text ?? saved;
  const [checked, setChecked] = useState<Checked>();
  const asked = useRef(""); // an answer about a former text may come later
  const editor = useRef<EditorHandle>(null);
  const queries = useQueryClient();

  // check asks the server about a text, when typing has paused.
  const check = useCallback(
    async (text: string): Promise<Mark[]> => {
      asked.current = text;
      const found = await problemsOf(text, (value) => queries.fetchQuery({ queryKey: ["validate", text], queryFn: () => validate(value), staleTime: Infinity })).catch((error: Error) => error);
      const marks = found instanceof Error ? [] : found;
      if (asked.current === text) setChecked({ text, marks, failure: found instanceof Error ? found.message : undefined });
      return marks;
    },
    [queries],
  );

  return (
    <Stack gap="sm">
      <CodeEditor
        ref={editor}
        label={`Rules of ${id} as YAML`}
        text={shown}
        readOnly={refused !== ""}
        onChange={(text) => setWork(text === saved ? undefined : { ...work, base, text })}
        check={check}
      />
      <Marks marks={checked?.marks ?? []} goTo={(mark) => editor.current?.goTo(mark)} />
      <Text size="sm" c="dimmed" role="status">
        {resultOf(checked, shown)}
      </Text>
      {!refused && (
        <Group gap="xs">
          <Button onClick={() => show("review")} disabled={!work}>
            Review changes
          </Button>
          <Button variant="default" onClick={() => setWork(undefined)} disabled={!work}>
            Discard
          </Button>
        </Group>
      )}
    </Stack>
  );
}

// Checked is a text and what is wrong with it, or why that is not known.
interface Checked {
  text: string;
  marks: Mark[];
  failure?: string;
}

// resultOf says whether the text was found to be right. Of another text, typed before, nothing is said.
function resultOf(checked: Checked | undefined, text: string): string {
  if (checked?.text !== text) return "Checking.";
  if (checked.failure) return "The text could not be checked: " + checked.failure;
  return checked.marks.length === 0 ? "The server found no problem." : "";
}

async function problemsOf(text: string, ask: (value: Parameters<typeof validate>[0]) => ReturnType<typeof validate>): Promise<Mark[]> {
  const source = read(text);
  if (!source.value) return source.marks;
  const answer = await ask(source.value);
  return marksOf(source, answer.errors ?? []);
}
