import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, unwrap } from "../api/client";
import { useRuleSets } from "../api/queries";
import { isSignedIn, useWho } from "../session";
import { useRoute } from "../router";
import { Page } from "../ui/Page";
import { Loaded, Loading } from "../ui/states";
import { emptyFields, questionOf, requestOf, type Fields } from "./explain/fields";
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
  const [asked, setAsked] = useState<Fields>();
  const [times, setTimes] = useState(0);
  const [about, setAbout] = useState(query.get("rule") ?? ""); // the rule that the question is about
  const answer = useQuery({
    queryKey: ["explain", asked, times],
    queryFn: () => unwrap(api.POST("/v1/rule-sets/{ruleSet}/explain", { params: { path: { ruleSet: asked!.ruleSet } }, body: requestOf(asked!) })),
    enabled: asked !== undefined,
    refetchInterval: (q) => (isSignedIn() && !q.state.error ? 2000 : false),
    placeholderData: (former) => former,
    gcTime: 0, // the request may have an API key
  });
  const rule = useNamed(query, fields, (named) => {
    setFields(named);
    setAsked(named);
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
      {rule.reading && !asked && <Loading />}
      {rule.failure && about && times === 0 && (
        <Text size="sm" className="breakable">
          Rule {about} could not be read, so the request does not have what it demands: {rule.failure}
        </Text>
      )}
      {asked && <Loaded query={answer}>{(data) => <Result explanation={data} about={asked.ruleSet === query.get("ruleSet") ? about : ""} forget={() => setAbout("")} refresh={() => void answer.refetch()} />}</Loaded>}
    </Page>
  );
}

// useNamed explains a caller that another screen names at once. If it names a rule, the
// request is one that the rule is for. It returns whether the rule is being read, which
// takes seconds while the rule source is away, and why it could not be read.
function useNamed(query: URLSearchParams, fields: Fields, ask: (fields: Fields) => void): { reading: boolean; failure?: string } {
  const [state, setState] = useState<{ reading: boolean; failure?: string }>({ reading: false });
  useEffect(() => {
    const [ruleSet, rule] = [query.get("ruleSet"), query.get("rule")];
    if (!ruleSet || query.size < 2) return;
    if (!rule) return ask(fields);
    let left = false;
    let failure: string | undefined;
    setState({ reading: true });
    unwrap(api.GET("/v1/rule-sets/{ruleSet}/rules/{rule}", { params: { path: { ruleSet, rule } } }))
      .then(
        (found) => questionOf(fields, given(query), found),
        (error: Error) => {
          failure = error.message; // the rule may be gone
          return fields;
        },
      )
      .then((question) => {
        if (left) return;
        setState({ reading: false, failure });
        ask(question);
      });
    return () => {
      left = true;
    };
    // Once, for the address that the screen was opened with.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return state;
}

function given(query: URLSearchParams): Partial<Fields> {
  const found: Partial<Fields> = {};
  for (const name of ["userId", "ip", "method", "path"] as const) {
    const value = query.get(name);
    if (value) found[name] = value;
  }
  return found;
}
