import { Paper, Text, Title } from "@mantine/core";
import { useEffect } from "react";
import { TokenForm } from "./TokenForm";

export function SignIn() {
  useEffect(() => {
    document.title = "Sign in · FluxGate";
  }, []);
  return (
    <main className="signin">
      <Paper withBorder p="lg">
        <Title order={1} size="h3">
          <img src="logo.svg" alt="" width={22} height={22} />
          Sign in to FluxGate
        </Title>
        <Text size="sm" c="dimmed" mb="md">
          With a token of server.auth or of the OIDC issuer. It needs the role read.
        </Text>
        <TokenForm />
      </Paper>
    </main>
  );
}
