package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/slots"
)

// Config is what the admin API works on.
type Config struct {
	// Operator does what is asked, Guard says who asks, Audit keeps the record.
	// They are required.
	Operator *admin.Direct
	Guard    *access.Guard
	Audit    *audit.Log
	// Counters are those of this server. Nil means none.
	Counters func(ruleSet string) []admin.Counter
	// Changed is called after every change, before it is answered: here it is
	// in effect at once. Nil means nobody.
	Changed func(*http.Request)
	// Clients finds out where callers are. Nil means at the other end of their
	// connection.
	Clients *clientip.Resolver
	// Rate is how many requests a minute one caller may make. 0 means 600.
	Rate int64
	// BodyTimeout bounds the reading of a body. 0 means 30 seconds.
	BodyTimeout time.Duration
	// Version is that of the server.
	Version string
	// Logger gets what went wrong. Nil means slog.Default().
	Logger *slog.Logger
}

// API is the admin API.
type API struct {
	config  Config
	reader  rules.Editor // for those who change nothing
	log     *slog.Logger
	clients *clientip.Resolver
	since   time.Time
	huma    huma.API
	handler http.Handler
	// slots are for operations: a large rule set takes some 100 MB to read,
	// compare and write.
	slots *slots.Pool
	// reading bounds how many documents are parsed at the same time.
	reading chan struct{}
}

// How many operations run at the same time, and how long a caller waits that
// has its share.
const (
	maxOperations       = 8
	maxCallerOperations = 2
	maxOperationWait    = 5 * time.Second
)

// timeout bounds one operation: what is slow in a source of ten thousand rules
// is slower than what a check may take.
const timeout = 2 * time.Minute

// New makes the API.
func New(config Config) (*API, error) {
	if config.Operator == nil || config.Guard == nil || config.Audit == nil {
		return nil, errors.New("the admin API needs an operator, a guard and an audit")
	}
	if config.Rate == 0 {
		config.Rate = 600
	}
	if config.BodyTimeout == 0 {
		config.BodyTimeout = 30 * time.Second
	}
	a := &API{
		config: config, reader: admin.Remembering(config.Operator), log: config.Logger, clients: config.Clients, since: time.Now().UTC(),
		slots: slots.New(maxOperations, maxCallerOperations, maxOperationWait), reading: make(chan struct{}, 2),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.clients == nil {
		var err error
		if a.clients, err = clientip.New(clientip.Config{}); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe(config.Version))
	a.huma.UseMiddleware(a.admit)
	a.registerRuleSets()
	a.registerRules()
	a.registerHistory()
	a.registerExplain()
	a.registerBuckets()
	a.registerAbout()
	for _, never := range []string{"ErrorModel", "ErrorDetail"} {
		delete(a.huma.OpenAPI().Components.Schemas.Map(), never) // our problems stand in their place
	}
	if err := a.serveDescription(mux); err != nil {
		return nil, err
	}
	limited, err := a.limit(mux)
	if err != nil {
		return nil, err
	}
	a.handler = limited
	return a, nil
}

// Patterns are the routes of the API, as [http.ServeMux] takes them.
func (a *API) Patterns() []string {
	patterns := []string{"GET /openapi.json", "GET /openapi-3.0.json"}
	for path, item := range a.huma.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete,
		} {
			if op != nil {
				patterns = append(patterns, method+" "+path)
			}
		}
	}
	return patterns
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// serveDescription answers with the description, in OpenAPI 3.1 and, for tools
// that are behind, 3.0.
func (a *API) serveDescription(mux *http.ServeMux) error {
	current, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("describing the admin API: %w", err)
	}
	former, err := a.huma.OpenAPI().Downgrade()
	if err != nil {
		return fmt.Errorf("describing the admin API: %w", err)
	}
	for pattern, text := range map[string][]byte{"GET /openapi.json": current, "GET /openapi-3.0.json": former} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/openapi+json")
			_, _ = w.Write(text)
		})
	}
	return nil
}

// client is where a request comes from.
func (a *API) client(r *http.Request) netip.Addr { return a.clients.Addr(r) }

// failed is what is answered where an operation failed. What is not the
// caller's doing goes to the log.
func (a *API) failed(ctx context.Context, err error) error {
	what := changingOf(ctx)
	if what.request.Method == http.MethodGet { // nothing was sent
		err = ofSource(ctx, err)
	}
	if problem := admin.ProblemOf(err); problem != nil {
		return problem
	}
	a.log.ErrorContext(ctx, "an operation failed", "operation", what.record.Operation, "error", err)
	detail := "The source of the rules cannot be asked now: see the server's log."
	switch {
	case what.bucket:
		detail = "The store of the buckets cannot be asked now: see the server's log."
	case what.sent:
		detail += " The change may have been made all the same: look before you try again."
	}
	return admin.NewProblem(http.StatusServiceUnavailable, admin.KindUnavailable, detail)
}

// Page bounds how much is asked for at once.
type Page struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
}

// RuleSetPath is the rule set in a path. It is exported, like all that inputs
// are made of, because huma looks for what is.
type RuleSetPath struct {
	RuleSet string `path:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"The rule set."`
}

// maxBody is how many bytes a rule set may have on its way here.
const maxBody = rules.MaxDocument + 4<<20
