package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

// walk reads all pages. list is the field of the entries, turn the parameter of the next
// page.
func walk[T any](t *testing.T, r *rig, path, list, turn string, limit int, headers ...string) []T {
	t.Helper()
	var all []T
	query := url.Values{"limit": {fmt.Sprint(limit)}}
	for range 1_000 {
		var page map[string]json.RawMessage
		r.send(t, http.MethodGet, path+"?"+query.Encode(), "", headers...).want(t, http.StatusOK).into(t, &page)
		var found []T
		do(t, json.Unmarshal(page[list], &found))
		if found == nil || len(found) > limit {
			t.Fatalf("%s with %v lists %s", path, query, page[list])
		}
		all = append(all, found...)
		next, more := page["next"]
		if !more {
			return all
		}
		query.Set(turn, strings.Trim(string(next), `"`))
	}
	t.Fatalf("%s has no end", path)
	return nil
}

// limits are sizes of pages, for lists of up to 30.
var limits = []int{1, 2, 3, 5, 7, 10, 29, 30, 31, 1_000}

// Pages of rule sets miss and repeat none.
func TestPaging_RuleSets(t *testing.T) {
	seen := []string{"set-03", "set-04", "set-11", "set-29"}
	r := start(t, func(s *settings) {
		s.server.Auth.Tokens = append(s.server.Auth.Tokens,
			token("some", "token of a reader of some rule sets", append([]string{"set-99"}, seen...), config.RoleRead))
	})
	var all []string
	for i := range 30 {
		id := fmt.Sprintf("set-%02d", i)
		r.create(t, "/v1/rule-sets/"+id, setOf(id, 5))
		all = append(all, id)
	}
	r.send(t, http.MethodDelete, "/v1/rule-sets/set-17", "", "If-Match", "*").want(t, http.StatusOK)
	all = slices.Delete(all, 17, 18)
	for _, limit := range limits {
		for name, c := range map[string]struct {
			token string
			want  []string
		}{
			"all":  {tokenRead, all},
			"some": {"token of a reader of some rule sets", seen},
			"none": {tokenOne, nil},
		} {
			var got []string
			for _, e := range walk[rules.Entry](t, r, "/v1/rule-sets", "ruleSets", "after", limit, "Authorization", "Bearer "+c.token) {
				got = append(got, e.RuleSetID)
				if e.Revision != 1 || e.Author != "token:writer" || e.At.IsZero() {
					t.Errorf("an entry is %+v", e)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("a reader of %s gets, in pages of %d, %v", name, limit, got)
			}
		}
	}
}

// Pages of rules miss and repeat none.
func TestPaging_Rules(t *testing.T) {
	r := start(t)
	capacities := make([]int, 30)
	for i := range capacities {
		capacities[i] = i + 1
	}
	r.create(t, mine, setOf("mine", capacities...))
	set, _ := r.read(t, mine)
	var want []string
	for rule := range set.Rules() {
		want = append(want, rule.ID)
	}
	for _, limit := range limits {
		var got []string
		for _, rule := range walk[struct{ ID string }](t, r, mine+"/rules", "rules", "offset", limit) {
			got = append(got, rule.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d the rules are %v", limit, got)
		}
	}
	beyond := r.send(t, http.MethodGet, mine+"/rules?offset=9223372036854775807", "").want(t, http.StatusOK)
	if got := strings.TrimSpace(beyond.body); got != `{"revision":1,"rules":[]}` || beyond.header.Get("ETag") != `"1"` {
		t.Errorf("the page after the last is %s, %s", got, beyond.header.Get("ETag"))
	}
}

// Pages of revisions miss and repeat none.
func TestPaging_Revisions(t *testing.T) {
	r := start(t)
	r.create(t, mine, setOf("mine", 1))
	var want []int64
	for i := 2; i <= 30; i++ {
		r.send(t, http.MethodPut, mine, setOf("mine", i), "If-Match", "*").want(t, http.StatusOK)
	}
	for i := int64(30); i > 0; i-- {
		want = append(want, i)
	}
	for _, limit := range limits {
		var got []int64
		for _, e := range walk[rules.Entry](t, r, mine+"/revisions", "revisions", "before", limit) {
			got = append(got, e.Revision)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d the revisions are %v", limit, got)
		}
	}
	if got := r.send(t, http.MethodGet, mine+"/revisions?before=1", "").want(t, http.StatusOK); strings.TrimSpace(got.body) != `{"revisions":[]}` {
		t.Errorf("the page before the first is %s", got.body)
	}
}
