import { Alert, Button, Group, Loader, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { Ago } from "./Ago";

export function Loading() {
  return (
    <Group gap="xs" p="md" role="status">
      <Loader size="sm" aria-hidden />
      <Text size="sm">Loading</Text>
    </Group>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return (
    <Text size="sm" c="dimmed" py="sm">
      {children}
    </Text>
  );
}

// Failure says what went wrong, what follows from it and what to do.
export function Failure({ error, retry }: { error: Error; retry?: () => void }) {
  return (
    <Alert color="red" variant="light" title={titleOf(error)} role="alert">
      <Text size="sm" className="breakable">
        {error.message}
      </Text>
      {error instanceof ApiError && <ProblemErrors error={error} />}
      {retry && (
        <Button mt="xs" size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      )}
    </Alert>
  );
}

function ProblemErrors({ error }: { error: ApiError }) {
  const errors = error.problem?.errors ?? [];
  if (errors.length === 0) return null;
  return (
    <ul>
      {errors.map((e, i) => (
        <li key={i} className="breakable">
          {e.location ? e.location + ": " : ""}
          {e.message}
        </li>
      ))}
    </ul>
  );
}

function titleOf(error: Error): string {
  if (!(error instanceof ApiError)) return "The console failed";
  switch (error.status) {
    case 0:
      return "No answer";
    case 401:
      return "Not signed in";
    case 403:
      return "Not permitted";
    case 404:
      return "Not found";
    case 412:
      return "Changed by another operator";
    case 429:
      return "Too many requests";
  }
  return error.status >= 500 ? "The server cannot answer" : "The server rejected this";
}

// Loaded shows the data of a query, or why there is none. Data that could not be
// refreshed stays, with a notice.
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data === undefined) {
    return query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <Loading />;
  }
  return (
    <>
      {query.error && (
        <Alert color="yellow" variant="light" title="Not up to date" mb="sm" role="status">
          {query.error.message} Shown is the state of <Ago time={new Date(query.dataUpdatedAt).toISOString()} />.
        </Alert>
      )}
      {children(query.data)}
    </>
  );
}
