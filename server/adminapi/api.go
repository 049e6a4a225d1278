package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/slots"
)

// Config configures an [API]. Operator, Guard and Audit are required.
type Config struct {
	Operator *admin.Direct
	Guard    *access.Guard
	Audit    *audit.Log
	// InEffect are the rules in effect, for reads while the rule source is unavailable. Nil means
	// that such reads fail.
	InEffect InEffect
	// Insight returns the live numbers. Nil means that the API has no such operations.
	Insight *insight.Insight
	// Changed is called after every change of a rule set or its overrides, before it is
	// answered, so that the change is in effect on this server. Nil means no call.
	Changed func(r *http.Request, ruleSet string)
	// Clients resolves the addresses of callers. Nil means those of the peers.
	Clients *clientip.Resolver
	// Rate limits the requests of one caller in a minute. 0 means 600.
	Rate int64
	// BodyTimeout bounds the reading of a body. 0 means 30 seconds.
	BodyTimeout time.Duration
	// Version is the version of the server.
	Version string
	// Logger gets errors that are not the caller's. Nil means slog.Default().
	Logger *slog.Logger
}

// API is the admin API.
type API struct {
	config  Config
	reader  rules.Editor // for operations that change nothing
	huma    huma.API
	handler http.Handler
	// patterns are the operations as patterns of [http.ServeMux].
	patterns []string
	// slots bounds concurrent operations: a large rule set needs some 100 MB to
	// read, compare and write.
	slots *slots.Pool
	// reading bounds how many documents are parsed at once.
	reading chan struct{}
	// fromMemory throttles the log lines about reads that were answered from memory.
	fromMemory *logthrottle.Throttle
}

// How many operations run at once, and how long a caller waits for a slot.
const (
	maxOperations       = 8
	maxCallerOperations = 2
	maxOperationWait    = 5 * time.Second
)

// timeout bounds one operation. Sources with ten thousand rules can be slow.
const timeout = 2 * time.Minute

// New returns the API.
func New(config Config) (*API, error) {
	if config.Operator == nil || config.Guard == nil || config.Audit == nil {
		return nil, errors.New("the admin API needs an operator, a guard and an audit")
	}
	config.Rate = cmp.Or(config.Rate, 600)
	config.BodyTimeout = cmp.Or(config.BodyTimeout, 30*time.Second)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Clients = cmp.Or(config.Clients, new(clientip.Resolver))
	a := &API{
		config: config, reader: admin.Remembering(config.Operator),
		slots: slots.New(maxOperations, maxCallerOperations, maxOperationWait), reading: make(chan struct{}, 2),
		fromMemory: logthrottle.New(time.Minute),
	}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe(config.Version))
	a.huma.UseMiddleware(a.admit)
	a.registerRuleSets()
	a.registerRules()
	a.registerHistory()
	a.registerExplain()
	a.registerBuckets()
	a.registerOverrides()
	a.registerInsight()
	a.registerAbout()
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel") // replaced by Problem
	delete(schemas, "ErrorDetail")
	rule := schemas["RuleDocument"].Properties // beside their enums, tags have no room for these
	rule["limitScope"].Description = "Whose bucket it is. The default is GLOBAL."
	rule["onMissingIdentity"].Description = "What happens to a request without the identity of the scope. The default is ip."
	if err := a.serveDescription(mux); err != nil {
		return nil, err
	}
	var err error
	a.handler, err = a.limit(mux)
	return a, err
}

// register adds an operation. Its errors become problems.
func register[I, O any](a *API, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	a.patterns = append(a.patterns, op.Method+" "+op.Path)
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			err = a.problem(ctx, err)
			attemptOf(ctx).problem = err.Error()
			return nil, err
		}
		return out, nil
	})
}

// body is an answer without headers.
type body[T any] struct{ Body *T }

// answer adds an operation that answers with a body only.
func answer[I, T any](a *API, op huma.Operation, do func(context.Context, *I) (*T, error)) {
	register(a, op, func(ctx context.Context, in *I) (*body[T], error) {
		out, err := do(ctx, in)
		return &body[T]{out}, err
	})
}

// Patterns returns the routes of the API as patterns of [http.ServeMux].
func (a *API) Patterns() []string {
	return append([]string{"GET /openapi.json"}, a.patterns...)
}

// ServeHTTP answers one request. Answers may have identities, so their headers forbid
// browsers and proxies to store them or to guess their type.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.handler.ServeHTTP(w, r)
}

// serveDescription serves the description in OpenAPI 3.1.
func (a *API) serveDescription(mux *http.ServeMux) error {
	text, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("describing the admin API: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(text)
	})
	return nil
}

// problem returns the answer to a failed operation. Errors that are not the
// caller's are logged.
func (a *API) problem(ctx context.Context, err error) error {
	attempt := attemptOf(ctx)
	if !attempt.edited {
		err = ofSource(ctx, err)
	}
	if problem := admin.ProblemOf(err); problem != nil {
		return problem
	}
	a.config.Logger.ErrorContext(ctx, "admin operation failed", "operation", attempt.record.Operation, "error", err)
	detail := "The rule source is unavailable: see the server's log."
	switch {
	case attempt.bucket:
		detail = "The store is unavailable: see the server's log."
	case attempt.sent:
		detail += " The change may have been made: check before you try again."
	}
	return admin.NewProblem(http.StatusServiceUnavailable, admin.KindUnavailable, detail)
}

// Page bounds the size of an answer.
type Page struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most entries to return."`
}

// RuleSetPath is the rule set in a path. It is exported because huma reads
// exported fields of inputs only.
type RuleSetPath struct {
	RuleSet string `path:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"The rule set."`
}

// maxBody is the largest rule set in bytes, as a body.
const maxBody = rules.MaxDocument + 4<<20
