import { Group, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";

// Page is a screen with its title and, beside it, controls.
export function Page({ title, controls, children }: { title: string; controls?: ReactNode; children: ReactNode }) {
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="xs">
        <Title order={1} size="h2">
          {title}
        </Title>
        {controls}
      </Group>
      {children}
    </Stack>
  );
}

// Section is a part of a screen with a heading.
export function Section({ title, controls, children }: { title: string; controls?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <Group justify="space-between" gap="xs" mb={6}>
        <Title order={2} size="h4">
          {title}
        </Title>
        {controls}
      </Group>
      {children}
    </section>
  );
}
