package doctor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

// Each rule that no request can reach is named with the reason, and no other rule is.
func TestUnreachableRules(t *testing.T) {
	const band = "bands: [{capacity: 9, refill: 1h}]"
	for name, c := range map[string]struct {
		set, rules []string
		want       []string
	}{
		"one segment is included":     {[]string{"ratelimit.include-patterns=/api/*"}, []string{"{id: users, path: /api/users/*, " + band + "}", "{id: all, " + band + "}"}, []string{`rule "users": ratelimit.include-patterns`}},
		"any number is included":      {[]string{"ratelimit.include-patterns=/api/**"}, []string{"{id: users, path: /api/users/*, " + band + "}"}, nil},
		"the filter is off":           {[]string{"ratelimit.include-patterns=/api/*", "ratelimit.filter-enabled=false"}, []string{"{id: users, path: /api/users/*, " + band + "}"}, nil},
		"forward-auth is off":         {[]string{"ratelimit.include-patterns=/api/*", "forward-auth.enabled=false"}, []string{"{id: users, path: /api/users/*, " + band + "}"}, nil},
		"excluded":                    {[]string{"ratelimit.exclude-patterns=/health"}, []string{"{id: health, path: /health, " + band + "}", "{id: more, path: /health/**, " + band + "}"}, []string{`rule "health": ratelimit.exclude-patterns`}},
		"excluded by itself":          {nil, []string{"{id: none, path: /a/b, when: {excludePaths: [/a/*]}, " + band + "}"}, []string{`rule "none": its excludePaths`}},
		"behind an exemption":         {nil, []string{"{id: free, priority: 9, action: allow}", "{id: all, " + band + "}"}, []string{`rule "all": rule "free" (action allow)`}},
		"behind two denials":          {nil, []string{"{id: one, priority: 9, action: deny, path: /a}", "{id: two, priority: 9, action: deny, path: /b}", "{id: both, paths: [/a, /b], " + band + "}"}, []string{`rule "both": rule "two"`}},
		"behind a condition":          {nil, []string{"{id: free, priority: 9, action: allow, when: {users: [ann]}}", "{id: all, " + band + "}"}, nil},
		"behind another method":       {nil, []string{"{id: free, priority: 9, action: allow, method: GET}", "{id: all, " + band + "}", "{id: get, method: GET, " + band + "}"}, []string{`rule "get": rule "free"`}},
		"behind a shadow rule":        {nil, []string{"{id: free, priority: 9, action: allow, mode: shadow}", "{id: all, " + band + "}"}, nil},
		"behind a disabled rule":      {nil, []string{"{id: free, priority: 9, action: allow, enabled: false}", "{id: all, " + band + "}"}, nil},
		"displaced in its group":      {nil, []string{"{id: first, priority: 9, group: g, " + band + "}", "{id: second, group: g, path: /a, " + band + "}", "{id: other, path: /a, " + band + "}"}, []string{`rule "second": rule "first" of its group`}},
		"an exemption of a group":     {nil, []string{"{id: paid, priority: 10, group: g, when: {users: [ann]}, " + band + "}", "{id: free, priority: 9, group: g, action: allow}", "{id: all, " + band + "}"}, nil},
		"an order that is as it must": {nil, []string{"{id: all, " + band + "}", "{id: free, path: /a, priority: 9, action: allow}"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			text := "id: api-limits\nrules:\n  - " + strings.Join(c.rules, "\n  - ") + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, err := config.Load(config.Sources{Set: append(c.set, "mongo.enabled=false", "rules.file="+file)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := doctor.UnreachableRules(t.Context(), loaded)
			if err != nil || !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("named: %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
