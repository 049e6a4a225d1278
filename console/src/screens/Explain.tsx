import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../api/client";
import { useRuleSets } from "../api/queries";
import { isSignedIn, useWho } from "../session";
import { useRoute } from "../router";
import { Page } from "../ui/Page";
import { Loaded } from "../ui/states";
import { emptyFields, requestOf, type Fields } from "./explain/fields";
import { RequestForm } from "./explain/RequestForm";
import { Result } from "./explain/Result";
import "./explain/explain.css";

// Explain shows which rules apply to a request, and what is left of its buckets. No
// tokens are taken.
export function Explain() {
  const { query } = useRoute();
  const who = useWho();
  const sets = useRuleSets().data?.ruleSets ?? [];
  const [fields, setFields] = useState<Fields>(() => ({ ...emptyFields, ...given(query), ruleSet: query.get("ruleSet") ?? who.defaultRuleSet ?? "" }));
  // A caller that another screen names is explained at once.
  const [asked, setAsked] = useState<Fields | undefined>(() => (query.size > 1 ? fields : undefined));
  const [times, setTimes] = useState(0);
  const answer = useQuery({
    queryKey: ["explain", asked, times],
    queryFn: () => unwrap(api.POST("/v1/rule-sets/{ruleSet}/explain", { params: { path: { ruleSet: asked!.ruleSet } }, body: requestOf(asked!) })),
    enabled: asked !== undefined,
    refetchInterval: (q) => (isSignedIn() && !q.state.error ? 2000 : false),
    placeholderData: (former) => former,
    gcTime: 0, // the request may have an API key
  });
  return (
    <Page title="Explain">
      <RequestForm
        fields={fields}
        setFields={setFields}
        ruleSets={sets.map((s) => s.id)}
        ask={() => {
          setAsked(fields);
          setTimes(times + 1);
        }}
      />
      {asked && <Loaded query={answer}>{(data) => <Result ruleSet={asked.ruleSet} explanation={data} refresh={() => void answer.refetch()} />}</Loaded>}
    </Page>
  );
}

function given(query: URLSearchParams): Partial<Fields> {
  const found: Partial<Fields> = {};
  for (const name of ["userId", "ip", "method", "path"] as const) {
    const value = query.get(name);
    if (value) found[name] = value;
  }
  return found;
}
