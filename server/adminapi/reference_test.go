package adminapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// The parts of an OpenAPI document that the reference shows.
type (
	reference struct {
		Info  struct{ Title, Description string }
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]*referenceOperation
		// Components are the schemas of operations.
		Components struct{ Schemas map[string]*schema }
	}
	referenceOperation struct {
		OperationID string
		Summary     string
		Tags        []string
		Security    []map[string][]string
		Parameters  []struct {
			Name, In, Description string
			Required              bool
			Schema                *schema
		}
		RequestBody *content
		Responses   map[string]*content
	}
	content struct {
		Description string
		Content     map[string]struct{ Schema *schema }
	}
	schema struct {
		Ref                  string `json:"$ref"`
		Type                 any
		Format, Description  string
		Enum                 []any
		Default              any
		Items                *schema
		OneOf                []*schema
		Properties           map[string]*schema
		AdditionalProperties any
		Required             []string
	}
)

// docs/admin-api.md is rendered from the served document. UPDATE_GOLDEN=1 writes it.
func TestReference_Golden(t *testing.T) {
	served := start(t).send(t, http.MethodGet, "/openapi.json", "").want(t, http.StatusOK).body
	var doc reference
	do(t, json.Unmarshal([]byte(served), &doc))
	golden(t, "../../docs/admin-api.md", doc.render(t))
}

// The types of the console are generated from testdata/openapi.json, which is the
// served document. UPDATE_GOLDEN=1 writes it.
func TestOpenAPI_Golden(t *testing.T) {
	served := start(t).send(t, http.MethodGet, "/openapi.json", "").want(t, http.StatusOK).body
	var indented bytes.Buffer
	do(t, json.Indent(&indented, []byte(served), "", "  "))
	golden(t, "testdata/openapi.json", indented.String()+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		do(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	do(t, err)
	if got != string(want) {
		t.Errorf("%s differs from the API: run UPDATE_GOLDEN=1 go test ./server/adminapi", name)
	}
}

func (doc *reference) render(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# The admin API\n\n%s\n\n", doc.Info.Description)
	b.WriteString("This page is generated from the description of the API (OpenAPI 3.1), which every server serves at `/openapi.json` on its admin listener.\n" +
		"[admin.md](admin.md) shows how to use it. Errors are `application/problem+json` of the form [Problem](#problem); every operation can answer\n" +
		"401, 403, 422, 429 and 503 with one.\n")
	for _, tag := range doc.Tags {
		fmt.Fprintf(&b, "\n## %s%s\n\n%s\n", strings.ToUpper(tag.Name[:1]), tag.Name[1:], tag.Description)
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			for _, method := range []string{"get", "put", "post", "delete"} {
				if op := doc.Paths[path][method]; op != nil && op.Tags[0] == tag.Name {
					op.render(&b, strings.ToUpper(method), path)
				}
			}
		}
	}
	b.WriteString("\n## Types\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		fmt.Fprintf(&b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
			must := ""
			if slices.Contains(s.Required, field) {
				must = ", always"
			}
			fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", field, p.kind(), must, p.Description)
		}
	}
	return b.String()
}

// roles are those that may call the operation.
func (op *referenceOperation) roles() string {
	var roles []string
	for _, need := range op.Security {
		roles = append(roles, need["bearer"]...)
	}
	return strings.Join(roles, "** or **")
}

func (op *referenceOperation) render(b *strings.Builder, method, path string) {
	fmt.Fprintf(b, "\n### %s\n\n`%s %s`\n\n%s. Role: **%s**.\n", op.OperationID, method, path, op.Summary, op.roles())
	if len(op.Parameters) > 0 {
		b.WriteString("\n| parameter | in | type | |\n|---|---|---|---|\n")
		for _, p := range op.Parameters {
			text := p.Description
			if p.Schema.Default != nil {
				text += fmt.Sprintf(" The default is %v.", p.Schema.Default)
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, p.In, p.Schema.kind(), text)
		}
	}
	if op.RequestBody != nil {
		fmt.Fprintf(b, "\nTakes %s.\n", op.RequestBody.kind())
	}
	var answers []string
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		answer := op.Responses[status]
		switch {
		case status < "400":
			text := status + " " + answer.Description
			if kind := answer.kind(); kind != "" {
				text += ": " + kind
			}
			answers = append(answers, text)
		case !slices.Contains([]string{"401", "403", "422", "429", "503"}, status):
			answers = append(answers, status+" "+answer.Description)
		}
	}
	fmt.Fprintf(b, "\nAnswers %s.\n", strings.Join(answers, "; "))
}

// kind returns the type of a body.
func (c *content) kind() string {
	for _, media := range c.Content {
		return media.Schema.kind()
	}
	return ""
}

// kind returns the name of a type.
func (s *schema) kind() string {
	switch {
	case s == nil:
		return "anything"
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case len(s.OneOf) > 0:
		var kinds []string
		for _, one := range s.OneOf {
			kinds = append(kinds, one.kind())
		}
		return strings.Join(kinds, " or ")
	case s.Type == "array":
		return "list of " + s.Items.kind()
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "map"
	case s.Type == nil:
		return "anything"
	case s.Format == "date-time":
		return "time"
	}
	if several, ok := s.Type.([]any); ok {
		return fmt.Sprintf("%v or %v", several[0], several[1])
	}
	return fmt.Sprint(s.Type)
}
