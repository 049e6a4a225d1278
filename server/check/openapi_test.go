package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/check"
	"github.com/fluxgate/fluxgate/store"
)

// openAPI is the part of the description that the tests compare.
type openAPI struct {
	Paths map[string]map[string]struct {
		RequestBody response
		Responses   map[string]response
	}
	Components struct {
		Schemas   map[string]*schema
		Responses map[string]response
	}
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema *schema }
}

type schema struct {
	Ref                  string `json:"$ref"`
	Description          string
	Type                 string
	Enum                 []string
	Required             []string
	Properties           map[string]*schema
	AdditionalProperties json.RawMessage // false, or a schema
	Items                *schema
	OneOf                []*schema
}

func described(t *testing.T) *openAPI {
	t.Helper()
	w := httptest.NewRecorder()
	check.Description().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))
	doc := new(openAPI)
	if err := json.Unmarshal(w.Body.Bytes(), doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// resolve returns the schema that a reference names.
func (doc *openAPI) resolve(t *testing.T, s *schema) *schema {
	t.Helper()
	if s != nil && s.Ref != "" {
		s = doc.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s == nil {
		t.Fatal("a schema is missing")
	}
	return s
}

// values returns the schema of the values of a map, nil if it is none.
func (s *schema) values(t *testing.T) *schema {
	t.Helper()
	if len(s.AdditionalProperties) == 0 || string(s.AdditionalProperties) == "false" {
		return nil
	}
	of := new(schema)
	if err := json.Unmarshal(s.AdditionalProperties, of); err != nil {
		t.Fatal(err)
	}
	return of
}

// The description has the routes of the API.
func TestOpenAPI_Routes(t *testing.T) {
	var got []string
	for path, methods := range described(t).Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	want := slices.Sorted(maps.Keys(new(check.API).Routes()))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("described are %q, want %q", got, want)
	}
}

// Every field of the types that are decoded and encoded is described, with its type and
// its documentation, and no other. Requests with other fields are refused, so their
// schemas say so; answers may get more. UPDATE_GOLDEN=1 writes the descriptions, and the
// properties of new fields that have a plain type; compile again to see them.
func TestOpenAPI_Fields(t *testing.T) {
	doc := described(t)
	requests := []string{"Batch", "CompatibleRequest", "DescriptorEntry", "Estimate", "Extend", "Request", "Settle", "Usage"}
	types := map[string]reflect.Type{
		"Request": reflect.TypeFor[wire.Request](), "DescriptorEntry": reflect.TypeFor[fluxgate.DescriptorEntry](), "Estimate": reflect.TypeFor[wire.Estimate](),
		"Batch": reflect.TypeFor[struct {
			Requests []wire.Request `json:"requests"`
		}](), "Settle": reflect.TypeFor[wire.Settle](), "Usage": reflect.TypeFor[wire.Usage](),
		"Extend": reflect.TypeFor[wire.Extend](), "CompatibleRequest": reflect.TypeFor[check.CompatibleRequest](),
		"Decision": reflect.TypeFor[wire.Decision](), "Band": reflect.TypeFor[wire.Band](), "Line": reflect.TypeFor[batchLine](),
		"Settlement": reflect.TypeFor[wire.Settlement](), "Settlements": reflect.TypeFor[wire.Settlements](), "Extended": reflect.TypeFor[wire.Extend](),
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		writeProperties(t, types)
		return
	}
	for name, of := range types {
		s, request := doc.Components.Schemas[name], slices.Contains(requests, name)
		if s == nil {
			t.Errorf("%s is not described", name)
			continue
		}
		if closed := string(s.AdditionalProperties) == "false"; closed != request {
			t.Errorf("%s: additionalProperties false is %t, want %t", name, closed, request)
		}
		known := map[string]bool{}
		for field := range of.Fields() {
			label, omitted, _ := strings.Cut(field.Tag.Get("json"), ",")
			if label == "-" {
				continue
			}
			place := name + "." + label
			known[label] = true
			p := s.Properties[label]
			if p == nil {
				t.Errorf("%s is not described", place)
				continue
			}
			if doc := field.Tag.Get("doc"); p.Description == "" || doc != "" && doc != p.Description {
				t.Errorf("%s: the description is %q, want %q", place, p.Description, doc)
			}
			if required := slices.Contains(s.Required, label); required != (omitted == "") && of != reflect.TypeFor[check.CompatibleRequest]() {
				t.Errorf("%s: required is %t", place, required)
			}
			doc.compareType(t, place, p, field.Type)
		}
		for label := range s.Properties {
			if !known[label] {
				t.Errorf("%s.%s is described and does not exist", name, label)
			}
		}
	}
}

// writeProperties updates the properties of schemas, in the order of the fields.
func writeProperties(t *testing.T, types map[string]reflect.Type) {
	t.Helper()
	const file = "openapi.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range types {
		before, rest, found := bytes.Cut(text, []byte("\n      \""+name+"\": {\n"))
		start := bytes.Index(rest, []byte("\"properties\": ")) + len("\"properties\": ")
		known := map[string]json.RawMessage{}
		decoder := json.NewDecoder(bytes.NewReader(rest[start:]))
		if err := decoder.Decode(&known); !found || err != nil {
			t.Fatal(name, found, err)
		}
		var all []string
		for field := range of.Fields() {
			label, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if label == "-" {
				continue
			}
			all = append(all, fmt.Sprintf("          %q: %s", label, property(known[label], field)))
		}
		properties := "{\n" + strings.Join(all, ",\n") + "\n        }"
		end := start + int(decoder.InputOffset())
		text = slices.Concat(before, text[len(before):len(text)-len(rest)], rest[:start], []byte(properties), rest[end:])
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// property returns the schema of a field: the known one with the field's description.
func property(known json.RawMessage, field reflect.StructField) []byte {
	description := strconv.Quote(field.Tag.Get("doc"))
	if known == nil {
		return fmt.Appendf(nil, `{"description": %s, "type": %q}`, description, plainTypes[field.Type.Kind()])
	}
	if description == `""` {
		return known
	}
	return regexp.MustCompile(`"description": "([^"\\]|\\.)*"`).ReplaceAllLiteral(known, []byte(`"description": `+description))
}

// plainTypes are the types of JSON by those of Go.
var plainTypes = map[reflect.Kind]string{
	reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
	reflect.Struct: "object", reflect.Map: "object", reflect.Slice: "array",
}

// compareType compares a schema with the type that is decoded or encoded.
func (doc *openAPI) compareType(t *testing.T, place string, s *schema, of reflect.Type) {
	t.Helper()
	s = doc.resolve(t, s)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	want := plainTypes[of.Kind()]
	switch of {
	case reflect.TypeFor[wire.Millis]():
		want = "number"
	case reflect.TypeFor[wire.Maxima](), reflect.TypeFor[batchAnswer]():
		if want = ""; len(s.OneOf) != 2 {
			t.Errorf("%s: has %d forms, want 2", place, len(s.OneOf))
		}
	}
	if s.Type != want {
		t.Errorf("%s: the type is %q, want %q", place, s.Type, want)
		return
	}
	switch of.Kind() {
	case reflect.Map:
		doc.compareType(t, place+".*", s.values(t), of.Elem())
	case reflect.Slice:
		doc.compareType(t, place+"[]", s.Items, of.Elem())
	}
}

// The values of strings are those of the code.
func TestOpenAPI_Enums(t *testing.T) {
	doc := described(t)
	for place, want := range map[string][]string{
		"Decision.reason": constants(t, "../../decision.go", "Reason"),
		"Decision.source": words(func(i uint8) string { return store.Source(i).String() }),
		"Band.source":     words(func(i uint8) string { return store.Source(i).String() }),
		"Band.status":     words(func(i uint8) string { return store.Status(i).String() }),
		"Band.kind":       constants(t, "../../rules/band.go", "BandKind")[1:], // absent for a token bucket
		"Band.period":     constants(t, "../../internal/calendar/calendar.go", "Period"),
	} {
		name, field, _ := strings.Cut(place, ".")
		if got := doc.Components.Schemas[name].Properties[field].Enum; !slices.Equal(got, want) || len(got) < 3 {
			t.Errorf("%s: %q, want %q", place, got, want)
		}
	}
}

// constants returns the values of the constants of a type in a file.
func constants(t *testing.T, file, of string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == of {
				value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
		}
		return true
	})
	return values
}

// words returns the values of a type in words.
func words(of func(uint8) string) (all []string) {
	for i := uint8(0); of(i) != "unknown"; i++ {
		all = append(all, of(i))
	}
	return all
}

// Every golden answer is as described. Fields that are not described fail.
func TestOpenAPI_GoldenAnswers(t *testing.T) {
	doc := described(t)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(string(text), "\n", 5)
		path, request := strings.TrimPrefix(parts[0], "POST "), parts[1]
		status, media, _ := strings.Cut(parts[3], " ")
		op := doc.Paths[path]["post"]
		got := op.Responses[status]
		if got.Ref != "" {
			got = doc.Components.Responses[strings.TrimPrefix(got.Ref, "#/components/responses/")]
		}
		if got.Content[media].Schema == nil {
			t.Errorf("%s: %s %s of %s is not described", file, status, media, path)
			continue
		}
		if problem := doc.validate(t, got.Content[media].Schema, decode(t, parts[4])); problem != "" {
			t.Errorf("%s: the answer: %s", file, problem)
		}
		// A request that was accepted is as described.
		if asked := op.RequestBody.Content["application/json"].Schema; status == "200" {
			if problem := doc.validate(t, asked, decode(t, request)); problem != "" {
				t.Errorf("%s: the request: %s", file, problem)
			}
		}
	}
	for _, answer := range []string{`{"allowed":true,"reason":"ok","remaining":0,"more":1}`, `{"allowed":true,"reason":"ok"}`, `{"allowed":1,"reason":"ok","remaining":0}`, `{"allowed":true,"reason":"why","remaining":0}`} {
		if doc.validate(t, doc.Components.Schemas["Decision"], decode(t, answer)) == "" {
			t.Errorf("the validator accepts %s", answer)
		}
	}
}

func decode(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// validate returns why a value is not as a schema describes, or nothing.
func (doc *openAPI) validate(t *testing.T, s *schema, value any) string {
	t.Helper()
	s = doc.resolve(t, s)
	if len(s.OneOf) > 0 {
		var problems []string
		for _, one := range s.OneOf {
			if problem := doc.validate(t, one, value); problem != "" {
				problems = append(problems, problem)
			}
		}
		if len(problems) == len(s.OneOf)-1 {
			return ""
		}
		return "not exactly one of its forms: " + strings.Join(problems, "; ")
	}
	got := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Map: "object", reflect.Slice: "array",
	}[reflect.ValueOf(value).Kind()]
	if number, ok := value.(float64); ok && s.Type == "integer" && number == float64(int64(number)) {
		got = "integer"
	}
	if got != s.Type {
		return fmt.Sprintf("%v is %s, not %s", value, got, s.Type)
	}
	if text, ok := value.(string); ok && len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return fmt.Sprintf("%q is not one of %q", text, s.Enum)
	}
	if list, ok := value.([]any); ok {
		for _, item := range list {
			if problem := doc.validate(t, s.Items, item); problem != "" {
				return problem
			}
		}
	}
	object, _ := value.(map[string]any)
	for _, field := range s.Required {
		if _, ok := object[field]; !ok && s.Type == "object" {
			return field + " is missing"
		}
	}
	for field, item := range object {
		p := s.Properties[field]
		if p == nil {
			if p = s.values(t); p == nil {
				return field + " is not described"
			}
		}
		if problem := doc.validate(t, p, item); problem != "" {
			return field + ": " + problem
		}
	}
	return ""
}
