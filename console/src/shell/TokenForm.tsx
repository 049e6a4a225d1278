import { Button, PasswordInput, Stack } from "@mantine/core";
import { useState, type FormEvent } from "react";
import { signIn } from "../session";

// TokenForm asks for a token and signs in with it.
export function TokenForm() {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await signIn(token.trim());
    } catch (failure) {
      setError((failure as Error).message);
      setBusy(false);
    }
  }

  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="sm">
        <PasswordInput
          label="Token"
          description="Kept in the memory of this page only."
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          error={error}
          autoComplete="off"
          spellCheck={false}
          required
          withAsterisk={false}
          data-autofocus
          autoFocus
          visibilityToggleButtonProps={{ "aria-label": "Show the token" }}
        />
        <Button type="submit" loading={busy} disabled={token.trim() === ""}>
          Sign in
        </Button>
      </Stack>
    </form>
  );
}
