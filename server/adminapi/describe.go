package adminapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/strictjson"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

// The names of the security schemes.
const (
	schemeBearer      = "bearer"
	schemeCertificate = "certificate"
)

// describe returns the configuration of huma.
func describe(version string) huma.Config {
	version = cmp.Or(version, "dev")
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[wire.Millis](), reflect.TypeFor[float64]())
	registry.RegisterTypeAlias(reflect.TypeFor[wire.Maxima](), reflect.TypeFor[maxima]())
	registry.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]())
	registry.RegisterTypeAlias(reflect.TypeFor[rules.Set](), reflect.TypeFor[rules.RuleSetDocument]())
	registry.RegisterTypeAlias(reflect.TypeFor[rules.Rule](), reflect.TypeFor[rules.RuleDocument]())
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "FluxGate admin API", Version: version,
				Description: "Rule sets and their rules, history and restoring, explanations, buckets " +
					"and live numbers of the fleet.",
				License: &huma.License{Name: "MIT", Identifier: "MIT"},
			},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					schemeBearer: {Type: "http", Scheme: "bearer", Description: "A token of server.auth or of the OIDC issuer. " +
						"Each operation lists the role that it needs."},
					schemeCertificate: {Type: "mutualTLS", Description: "A client certificate of server.auth.certificates."},
				},
			},
			Tags: []*huma.Tag{
				{Name: tagRuleSets, Description: "Rule sets and their rules."},
				{Name: tagHistory, Description: "Revisions, their authors, and restoring."},
				{Name: tagOverrides, Description: "Other numbers of a rule for single callers."},
				{Name: tagDecisions, Description: "Explain decisions, and show and reset buckets."},
				{Name: tagInsight, Description: "What happens now: rates, servers and callers."},
				{Name: tagAbout, Description: "The caller."},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json", RejectUnknownQueryParameters: true,
		Transformers: []huma.Transformer{plainProblems},
	}
}

// maxima is the schema of [wire.Maxima]: a number or a list of numbers.
type maxima int64

// Schema implements [huma.SchemaProvider].
func (maxima) Schema(huma.Registry) *huma.Schema {
	number := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64)}
	number.PrecomputeMessages()
	either := &huma.Schema{OneOf: []*huma.Schema{number, {Type: huma.TypeArray, Items: number}}}
	either.PrecomputeMessages()
	return either
}

// The groups of operations.
const (
	tagRuleSets  = "rule sets"
	tagHistory   = "history"
	tagDecisions = "decisions"
	tagOverrides = "overrides"
	tagInsight   = "insight"
	tagAbout     = "about"
)

// plainProblems turns the errors of huma into problems without the values that
// were sent, which may be secrets, and passes them to the audit.
func plainProblems(ctx huma.Context, _ string, v any) (any, error) {
	found, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := admin.NewProblem(found.Status, admin.KindValidation, found.Detail)
	for _, e := range found.Errors {
		p.Errors = append(p.Errors, admin.ProblemDetail{Location: e.Location, Message: e.Message})
	}
	if c, ok := ctx.Context().Value(attemptKey{}).(*attempt); ok {
		c.problem = p.Error()
	}
	return p, nil
}

// operation describes an operation that needs a role. The errors are its error
// statuses beside those of every operation.
func (a *API) operation(role config.Role, method, path, id, tag, summary string, errors ...int) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary,
		Security:     needs(role),
		MaxBodyBytes: 64 << 10, BodyReadTimeout: a.config.BodyTimeout,
		Responses: map[string]*huma.Response{},
	}
	problem := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[admin.Problem](), true, "Problem")
	errors = append(errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusServiceUnavailable)
	for _, status := range errors {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
	return op
}

func needs(role config.Role) []map[string][]string {
	return []map[string][]string{{schemeBearer: {string(role)}}, {schemeCertificate: {string(role)}}}
}

// orSupport permits an operation to the role support too.
func orSupport(op huma.Operation) huma.Operation {
	op.Security = append(op.Security, needs(config.RoleSupport)...)
	return op
}

// get returns an operation that reads.
func (a *API) get(path, id, tag, summary string, errors ...int) huma.Operation {
	return a.operation(config.RoleRead, http.MethodGet, path, id, tag, summary, errors...)
}

// edit returns an operation that changes rules.
func (a *API) edit(method, path, id, tag, summary string) huma.Operation {
	return a.operation(config.RoleWrite, method, path, id, tag, summary, changeErrors...)
}

// alsoCreated documents that a change may have created something.
func alsoCreated(op *huma.Operation) {
	op.Responses["201"] = &huma.Response{
		Description: http.StatusText(http.StatusCreated),
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Entry"}}},
	}
}

// document is a rule set or a rule as it was sent. Our own decoder parses it, which
// returns all problems with their positions.
type document[T any] json.RawMessage

// Schema returns the schema of the document.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
}

// keep stores the body as it was sent.
func (d *document[T]) keep(text []byte) { *d = bytes.Clone(text) }

// format is JSON, except for documents, which are kept as they were sent.
var format = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(text []byte, to any) error {
		if doc, ok := to.(interface{ keep([]byte) }); ok {
			doc.keep(text)
			return nil
		}
		if err := strictjson.Check(text); err != nil {
			return err
		}
		return huma.DefaultJSONFormat.Unmarshal(text, to)
	},
}

type (
	ruleSetDocument = document[rules.RuleSetDocument]
	ruleDocument    = document[rules.RuleDocument]
)
