// Life performs all operations on a rule with the client generated from the description
// of the API. It ends with an error at the first wrong answer.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

// must ends the program if a result is wrong.
func must(err error, good bool, what string) {
	if err != nil || !good {
		fmt.Fprintln(os.Stderr, "not so:", what, err)
		os.Exit(1)
	}
	fmt.Println(what)
}

func to[T any](v T) *T { return &v }

func main() {
	ctx := context.Background()
	c, err := NewClientWithResponses(os.Args[1], WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	}))
	must(err, true, "a client")
	rule := func(capacity int64) RuleDocument {
		return RuleDocument{
			Id: "per-user", LimitScope: to(RuleDocumentLimitScope("USER_ID")), Bands: &[]BandDocument{{Label: to("hourly"), Capacity: capacity, Refill: to("1h")}},
		}
	}

	checked, err := c.ValidateRuleSetWithResponse(ctx, RuleSetDocument{Id: "api", Rules: []RuleDocument{rule(0)}})
	must(err, checked.JSON200 != nil && !checked.JSON200.Valid && len(*checked.JSON200.Errors) == 1, "an invalid rule set is reported")

	created, err := c.PutRuleSetWithResponse(ctx, "api", &PutRuleSetParams{IfNoneMatch: to("*"), Comment: to("the first")}, RuleSetDocument{Id: "api", Rules: []RuleDocument{rule(2)}})
	must(err, created.JSON201 != nil && created.JSON201.Revision == 1, "created")

	read, err := c.GetRuleSetWithResponse(ctx, "api")
	must(err, read.JSON200 != nil && (*read.JSON200).Rules[0].Id == "per-user" && read.HTTPResponse.Header.Get("ETag") == `"1"`, "read")

	explained, err := c.ExplainDecisionWithResponse(ctx, "api", &ExplainDecisionParams{}, Request{UserId: to("ada"), Path: to("/")})
	must(err, explained.JSON200 != nil && explained.JSON200.Decision.Allowed && explained.JSON200.Rules[0].Applies, "explained")
	key := *explained.JSON200.Rules[0].Key

	changed, err := c.PutRuleWithResponse(ctx, "api", "per-user", &PutRuleParams{IfMatch: to(`"1"`)}, rule(5))
	must(err, changed.JSON200 != nil && changed.JSON200.Revision == 2, "changed")

	late, err := c.PutRuleWithResponse(ctx, "api", "per-user", &PutRuleParams{IfMatch: to(`"1"`)}, rule(50))
	must(err, late.ApplicationproblemJSON412 != nil && late.ApplicationproblemJSON412.Conflict.Current == 2 && len(*late.ApplicationproblemJSON412.Conflict.Changes) == 1,
		"a conflict has the changes")

	added, err := c.PutRuleWithResponse(ctx, "api", "health", &PutRuleParams{IfMatch: to(`"2"`)}, RuleDocument{Id: "health", Path: to("/healthz"), Action: to(RuleDocumentAction("allow")), Priority: to(int64(9))})
	must(err, added.JSON201 != nil && added.JSON201.Revision == 3, "a rule is added")
	listed, err := c.ListRulesWithResponse(ctx, "api", &ListRulesParams{})
	must(err, listed.JSON200 != nil && len(listed.JSON200.Rules) == 2, "listed")

	peeked, err := c.PeekBucketsWithResponse(ctx, "api", Peek{Request: Request{UserId: to("ada")}, Rules: &[]string{"per-user"}})
	must(err, peeked.JSON200 != nil && peeked.JSON200.Buckets[0].Key == key && peeked.JSON200.Buckets[0].Bands[0].Limit == 5, "peeked")
	reset, err := c.ResetBucketsWithResponse(ctx, "api", Reset{Rule: to("per-user"), Key: &key})
	must(err, reset.StatusCode() == http.StatusNoContent, "reset")

	differ, err := c.DiffRevisionsWithResponse(ctx, "api", &DiffRevisionsParams{From: to(int64(1)), To: to(int64(2))})
	must(err, differ.JSON200 != nil && (*differ.JSON200.Changes[0].Fields)[0].Path == "bands[hourly].capacity", "compared")

	restored, err := c.RestoreRevisionWithResponse(ctx, "api", 1, &RestoreRevisionParams{IfMatch: to(`"3"`)})
	must(err, restored.JSON200 != nil && restored.JSON200.Revision == 4, "restored")
	gone, err := c.DeleteRuleSetWithResponse(ctx, "api", &DeleteRuleSetParams{IfMatch: to(`"4"`)})
	must(err, gone.JSON200 != nil && gone.JSON200.Revision == 5, "taken away")
	history, err := c.ListRevisionsWithResponse(ctx, "api", &ListRevisionsParams{})
	must(err, history.JSON200 != nil && len(history.JSON200.Revisions) == 5 && *history.JSON200.Revisions[4].Comment == "the first", "the history is complete")

	who, err := c.WhoamiWithResponse(ctx)
	must(err, who.JSON200 != nil && who.JSON200.Name == *history.JSON200.Revisions[0].Author, "the history has the author")
}
