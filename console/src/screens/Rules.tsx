import { lazy, Suspense } from "react";
import { noAnswer } from "../api/client";
import { useRoute } from "../router";
import { Boundary } from "../ui/Boundary";
import { Loading } from "../ui/states";
import { RuleSets } from "./rules/RuleSets";
import "./rules/rules.css";

// The page of a rule set has the editor, which is as large as the rest of the console:
// it is loaded when it is needed.
const RuleSetPage = lazy(() =>
  import("./rules/ruleset").catch(() => {
    throw noAnswer();
  }),
);

// Rules is the list of rule sets, or one of them: #/rules/api-limits.
export function Rules() {
  const id = idOf(useRoute().path);
  if (!id) return <RuleSets />;
  return (
    <Boundary>
      <Suspense fallback={<Loading />}>
        <RuleSetPage key={id} id={id} />
      </Suspense>
    </Boundary>
  );
}

function idOf(path: string): string {
  const part = path.split("/")[2] ?? "";
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
