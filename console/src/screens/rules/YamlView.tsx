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
  const [marks, setMarks] = useState<Mark[]>([]);
  const [problem, setProblem] = useState("");
  const editor = useRef<EditorHandle>(null);
  const queries = useQueryClient();

  // check asks the server about a text, when typing has paused.
  const check = useCallback(
    async (text: string): Promise<Mark[]> => {
      const found = await problemsOf(text, (value) => queries.fetchQuery({ queryKey: ["validate", text], queryFn: () => validate(value), staleTime: Infinity })).catch((error: Error) => error);
      setProblem(found instanceof Error ? "The text could not be checked: " + found.message : "");
      setMarks(found instanceof Error ? [] : found);
      return found instanceof Error ? [] : found;
    },
    [queries],
  );

  return (
    <Stack gap="sm">
      <CodeEditor
        ref={editor}
        label={`Rules of ${id} as YAML`}
        text={work?.text ?? saved}
        readOnly={refused !== ""}
        onChange={(text) => setWork(text === saved ? undefined : { ...work, base, text })}
        check={check}
      />
      <Marks marks={marks} goTo={(mark) => editor.current?.goTo(mark)} />
      <Text size="sm" c="dimmed" role="status">
        {problem || (marks.length === 0 ? "The server found no problem." : "")}
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

async function problemsOf(text: string, ask: (value: Parameters<typeof validate>[0]) => ReturnType<typeof validate>): Promise<Mark[]> {
  const source = read(text);
  if (!source.value) return source.marks;
  const answer = await ask(source.value);
  return marksOf(source, answer.errors ?? []);
}
