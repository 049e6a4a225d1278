import { Text } from "@mantine/core";
import type { Schemas } from "../../api/client";
import { Ago } from "../../ui/Ago";
import { shownRevision } from "../../ui/format";

// Saved says which revision it is, who saved it, when and why.
export function Saved({ entry }: { entry: Schemas["Entry"] }) {
  return (
    <Text size="xs" c="dimmed" className="clamped" title={entry.comment}>
      Revision {shownRevision(entry.revision)}
      {entry.author && `, by ${entry.author}`}
      {entry.at && (
        <>
          , <Ago time={entry.at} />
        </>
      )}
      {entry.comment && `: ${entry.comment}`}
    </Text>
  );
}
