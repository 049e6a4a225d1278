package fluxgate_test

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// In place of redis_rate, with redisstore as the store.
func ExampleKeyLimiter_insteadOfRedisRate() {
	ctx, store := context.Background(), fluxgate.Must(memstore.New(memstore.Config{}))
	projects := fluxgate.NewKeyLimiter(store, "projects", rules.Band{Capacity: 20, RefillTokens: 10, Refill: time.Second})
	d, err := projects.Allow(ctx, "project:123")
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 19 <nil>
}

// In place of a limiter of golang.org/x/time/rate for each user.
func ExampleKeyLimiter_insteadOfTimeRate() {
	ctx, store := context.Background(), fluxgate.Must(memstore.New(memstore.Config{}))
	user, w := "ada", httptest.NewRecorder()
	limiter := fluxgate.NewKeyLimiter(store, "uploads", rules.Band{Capacity: 20, RefillTokens: 10, Refill: time.Second})
	if d, err := limiter.Allow(ctx, user); err == nil && !d.Allowed {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	}
	fmt.Println(w.Code)
	// Output: 200
}

// In place of the middleware httprate.
func ExampleStatic_insteadOfHTTPRate() {
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	mux := http.NewServeMux()
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{
		ID: "per-user", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(100)},
	}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine, httplimit.WithUserFunc(user)))
	handler := limit(mux)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"))
	// Output: 99
}

// Every Go block of docs/migration.md that is ours is part of an example above, and
// those of others can be parsed.
func TestDocs_MigrationGo(t *testing.T) {
	ours := strings.ReplaceAll(readFile(t, "example_migration_test.go"), "\t", "")
	found := regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(readFile(t, "docs/migration.md"), -1)
	if len(found) != 6 {
		t.Errorf("%d Go blocks, not one of theirs and one of ours for each of three", len(found))
	}
	for _, block := range found {
		if strings.HasPrefix(block[1], "// before\n") {
			if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+block[1]+"}", 0); err != nil {
				t.Errorf("%v\n%s", err, block[1])
			}
		} else if !strings.Contains(ours, strings.ReplaceAll(block[1], "\t", "")) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}
