import { Alert, Button, Group, NativeSelect, PasswordInput, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { parseCurl } from "./curl";
import { problemsOf, withCurl, type Fields, type Problems } from "./fields";

interface Props {
  fields: Fields;
  setFields: (fields: Fields) => void;
  ruleSets: string[];
  ask: () => void;
}

// RequestForm describes a request, field by field or by a curl command.
export function RequestForm({ fields, setFields, ruleSets, ask }: Props) {
  const [problems, setProblems] = useState<Problems>({});
  const field = (name: keyof Fields) => ({
    value: fields[name],
    error: problems[name],
    onChange: (event: { currentTarget: { value: string } }) => setFields({ ...fields, [name]: event.currentTarget.value }),
    spellCheck: false,
    autoComplete: "off",
  });
  return (
    <Stack gap="md">
      <CurlInput take={(command) => setFields(withCurl(fields, command))} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const found = problemsOf(fields);
          setProblems(found);
          if (Object.keys(found).length === 0) ask();
        }}
      >
        <div className="request">
          <NativeSelect label="Rule set" {...field("ruleSet")} data={[...new Set([fields.ruleSet, ...ruleSets])].filter(Boolean)} />
          <TextInput label="Method" {...field("method")} />
          <TextInput label="Path" placeholder="As it is sent, percent-encoded" className="wide" {...field("path")} />
          <TextInput label="Host" {...field("host")} />
          <TextInput label="User" {...field("userId")} />
          <TextInput label="Address" {...field("ip")} />
          <PasswordInput label="API key" {...field("apiKey")} visibilityToggleButtonProps={{ "aria-label": "Show the API key" }} />
          <TextInput label="Cost" placeholder="1" inputMode="numeric" {...field("cost")} />
        </div>
        <div className="request lists">
          <Textarea label="Headers" description="A line for each, such as X-Tenant: acme" autosize={false} rows={3} {...field("headers")} />
          <Textarea label="Attributes" description="A line for each, such as tier=premium" autosize={false} rows={3} {...field("attributes")} />
        </div>
        <Button type="submit" mt="md">
          Explain
        </Button>
      </form>
    </Stack>
  );
}

function CurlInput({ take }: { take: (request: ReturnType<typeof parseCurl>) => void }) {
  const [command, setCommand] = useState("");
  const [error, setError] = useState("");
  const [read, setRead] = useState<ReturnType<typeof parseCurl>>();
  const fill = () => {
    try {
      const request = parseCurl(command);
      setRead(request);
      setError("");
      take(request);
    } catch (failure) {
      setRead(undefined);
      setError((failure as Error).message);
    }
  };
  return (
    <details className="curl">
      <summary>Paste a curl command</summary>
      <Stack gap="xs" mt="xs">
        <Textarea
          label="curl command"
          description="It is read, not executed. Credentials are left out."
          placeholder="curl -X POST https://api.example.com/orders -H 'X-Tenant: acme'"
          rows={4}
          value={command}
          error={error}
          onChange={(e) => setCommand(e.currentTarget.value)}
          spellCheck={false}
          classNames={{ input: "mono" }}
        />
        <Group>
          <Button size="xs" variant="default" onClick={fill} disabled={command.trim() === ""}>
            Fill in the form
          </Button>
        </Group>
        {read && (
          <Alert color="blue" variant="light" role="status" title={`Read as ${read.method} ${read.path}`}>
            {read.notes.length > 0 && (
              <ul className="plain">
                {read.notes.map((note, i) => (
                  <li key={i} className="breakable">
                    {note}
                  </li>
                ))}
              </ul>
            )}
            <Text size="sm">A command does not say who FluxGate sees as the caller: fill in the user, the address or the API key.</Text>
          </Alert>
        )}
      </Stack>
    </details>
  );
}
