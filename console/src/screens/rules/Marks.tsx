import { Alert, UnstyledButton } from "@mantine/core";
import type { Mark } from "./text";

// Marks lists problems, or warnings, with their lines. With goTo a line leads into the text.
export function Marks({ marks, goTo, warnings }: { marks: Mark[]; goTo?: (mark: Mark) => void; warnings?: boolean }) {
  if (marks.length === 0) return null;
  const noun = warnings ? "warning" : "problem";
  return (
    <Alert color={warnings ? "yellow" : "red"} variant="light" role="alert" title={marks.length === 1 ? `1 ${noun}` : `${marks.length} ${noun}s`}>
      <ul className="plain">
        {marks.slice(0, 50).map((mark, i) => (
          <li key={i} className="breakable">
            {goTo ? (
              <UnstyledButton className="to-line" onClick={() => goTo(mark)}>
                Line {mark.line}
              </UnstyledButton>
            ) : (
              `Line ${mark.line}`
            )}
            : {mark.message}
          </li>
        ))}
      </ul>
    </Alert>
  );
}
