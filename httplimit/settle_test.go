package httplimit_test

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// settling is a middleware in front of a handler that tells what each request
// has cost.
func settling(t *testing.T, engine *fluxgate.Engine, handler func(*http.Request), options ...httplimit.Option) http.Handler {
	t.Helper()
	options = append([]httplimit.Option{httplimit.WithSettling(true)}, options...)
	return newLimit(t, engine, options...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handler(r) }))
}

// left is what a rule for everyone has left.
func left(t *testing.T, engine *fluxgate.Engine) int64 {
	t.Helper()
	d, err := engine.Check(t.Context(), &fluxgate.Request{Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A request is settled once.
func TestSettle_Once(t *testing.T) {
	for _, c := range []struct {
		name   string
		actual int64
		want   store.Settlement
		left   int64
	}{
		{"less than was taken is given back", 4, store.Settlement{Returned: 6}, 96},
		{"more than was taken is charged", 25, store.Settlement{Charged: 15}, 75},
		{"nothing", 0, store.Settlement{Returned: 10}, 100},
		{"what was taken", 10, store.Settlement{}, 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := newEngine(t, []rules.Rule{perHour("r", 100)})
			record(settling(t, engine, func(r *http.Request) {
				got, err := httplimit.Settle(r.Context(), c.actual)
				if err != nil || got != c.want {
					t.Errorf("settled %+v, %v; want %+v", got, err, c.want)
				}
				if _, err := httplimit.Settle(r.Context(), c.actual); !errors.Is(err, fluxgate.ErrSettled) {
					t.Errorf("settled twice: %v", err)
				}
			}, httplimit.WithCost(10)), get("/"))
			if got := left(t, engine); got != c.left {
				t.Errorf("%d are left, want %d", got, c.left)
			}
		})
	}
}

// A decision that took nothing has no receipt.
func TestSettle_NothingTaken(t *testing.T) {
	engine := newEngine(t, []rules.Rule{{ID: "friends", Action: rules.ActionAllow}})
	record(settling(t, engine, func(r *http.Request) {
		for range 2 {
			if got, err := httplimit.Settle(r.Context(), 7); err != nil || got != (store.Settlement{}) {
				t.Errorf("settled %+v, %v", got, err)
			}
		}
	}), get("/"))
}

// Settling without WithSettling is an error.
func TestSettle_NoAdmission(t *testing.T) {
	engine := newEngine(t, []rules.Rule{perHour("r", 100)})
	for name, options := range map[string][]httplimit.Option{
		"by default": nil, "on a path that is left out": {httplimit.WithSettling(true), httplimit.WithoutPaths("/**")},
	} {
		t.Run(name, func(t *testing.T) {
			original := get("/")
			handler := newLimit(t, engine, options...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := httplimit.Settle(r.Context(), 1); !errors.Is(err, httplimit.ErrNoAdmission) {
					t.Errorf("settled with %v", err)
				}
				if r != original {
					t.Error("the request is another one")
				}
			}))
			record(handler, original)
		})
	}
}

// A stream is settled although the context of its request has ended.
func TestSettle_ClientGone(t *testing.T) {
	engine := newEngine(t, []rules.Rule{perHour("r", 100)})
	ctx, cancel := context.WithCancel(t.Context())
	record(settling(t, engine, func(r *http.Request) {
		cancel()
		if got, err := httplimit.Settle(r.Context(), 30); err != nil || got.Charged != 29 {
			t.Errorf("settled %+v, %v", got, err)
		}
	}), get("/").WithContext(ctx))
	if got := left(t, engine); got != 70 {
		t.Errorf("%d are left, want 70", got)
	}
}

// stuck is a limiter whose store does not answer.
type stuck struct{ fluxgate.Limiter }

func (s stuck) Settle(ctx context.Context, _ *fluxgate.Receipt, _ int64) (store.Settlement, error) {
	if _, bounded := ctx.Deadline(); !bounded || ctx.Value(userKey{}) != "ann" {
		return store.Settlement{}, errors.New("no deadline, or not the caller's values")
	}
	return store.Settlement{}, nil
}

type userKey struct{}

// Settling is bounded.
func TestSettle_Timeout(t *testing.T) {
	limiter := stuck{newEngine(t, []rules.Rule{perHour("r", 100)})}
	handler := newLimit(t, limiter, httplimit.WithSettling(true))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := httplimit.Settle(r.Context(), 5); err != nil {
			t.Error(err)
		}
	}))
	record(handler, get("/").WithContext(context.WithValue(t.Context(), userKey{}, "ann")))
}

// A handler finds the admissions of all middlewares.
func TestAdmission_All(t *testing.T) {
	engine, err := fluxgate.New(newStore(t), fluxgate.Static(ruleSet(t, "requests", perHour("all", 10)), ruleSet(t, "tokens", perHour("model", 1000))))
	if err != nil {
		t.Fatal(err)
	}
	settle := httplimit.WithSettling(true)
	handler := newLimit(t, engine, settle, httplimit.WithRuleSet("requests"))(
		newLimit(t, engine, settle, httplimit.WithRuleSet("tokens"), httplimit.WithCost(100))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				a, ok := httplimit.FromContext(r.Context())
				if !ok || a.RuleSet() != "tokens" || a.Decision().RuleID != "model" || a.Decision().Remaining != 900 {
					t.Errorf("admitted by %+v", a)
				}
				var sets []string
				for a := range httplimit.All(r.Context()) {
					sets = append(sets, a.RuleSet())
					if _, err := a.Settle(r.Context(), 7); err != nil {
						t.Error(err)
					}
				}
				if !slices.Equal(sets, []string{"tokens", "requests"}) {
					t.Errorf("admitted by %q", sets)
				}
				for range httplimit.All(r.Context()) {
					break
				}
			})))
	record(handler, get("/"))
	for set, want := range map[string]int64{"requests": 3, "tokens": 993} {
		d, err := engine.Check(t.Context(), &fluxgate.Request{RuleSet: set, Peek: true})
		if err != nil || d.Remaining != want {
			t.Errorf("%s has %d left, want %d; %v", set, d.Remaining, want, err)
		}
	}
}

// The admission's context differs from the request's only by the admission.
func TestAdmission_Context(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), userKey{}, "ann"), time.Hour)
	defer cancel()
	record(settling(t, newEngine(t, []rules.Rule{perHour("r", 1)}), func(r *http.Request) {
		got := r.Context()
		deadline, ok := got.Deadline()
		want, _ := ctx.Deadline()
		if !ok || deadline != want || got.Value(userKey{}) != "ann" || got.Err() != nil {
			t.Errorf("deadline %v, value %v, error %v", deadline, got.Value(userKey{}), got.Err())
		}
		child, stop := context.WithCancel(got)
		defer stop()
		cancel()
		<-child.Done()
		if !errors.Is(got.Err(), context.Canceled) {
			t.Errorf("error %v", got.Err())
		}
	}), get("/").WithContext(ctx))
}

// Fields that the handler sets are visible to outer handlers.
func TestAdmission_RequestFields(t *testing.T) {
	mux := http.NewServeMux()
	var file string
	mux.HandleFunc("POST /upload/{id}", func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil { // in files
			t.Error(err)
			return
		}
		part, err := r.MultipartForm.File["data"][0].Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer part.Close()
		file = part.(*os.File).Name()
	})
	limited := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 9)}), httplimit.WithSettling(true))(mux)
	var pattern string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r)
		pattern = r.Pattern
	}))
	defer server.Close()
	body := new(strings.Builder)
	form := multipart.NewWriter(body)
	part, _ := form.CreateFormFile("data", "data.bin")
	_, _ = io.WriteString(part, strings.Repeat("x", 100_000))
	form.Close()
	response, err := server.Client().Post(server.URL+"/upload/7", form.FormDataContentType(), strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	server.Close() // the server cleans up when the handlers have returned
	if pattern != "POST /upload/{id}" {
		t.Errorf("the pattern is %q", pattern)
	}
	if _, err := os.Stat(file); file == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server has left %q: %v", file, err)
	}
}
