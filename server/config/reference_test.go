package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const reference = "../../docs/configuration.md"

// comments are those of the package's types and of their fields, by the name of
// the type and by type.field.
func comments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, spec := range decl.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				found[typ.Name.Name] = oneLine(decl.Doc.Text())
				fields, ok := typ.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						found[typ.Name.Name+"."+name.Name] = oneLine(f.Doc.Text())
					}
				}
			}
			return false
		})
	}
	return found
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// withoutSubject is a comment without the name of the field that it begins
// with: "URI is where Redis is" is "where Redis is" beside the key.
func withoutSubject(comment, field string) string {
	rest := strings.TrimPrefix(comment, field+" ")
	for _, verb := range []string{"is ", "are "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return rest
}

// meaning is what a key means, with the values that it can have.
func meaning(t *testing.T, said map[string]string, group reflect.Type, e *setting) string {
	t.Helper()
	field := group.Field(e.index[len(e.index)-1]).Name
	comment := said[group.Name()+"."+field]
	if !strings.HasPrefix(comment, field+" ") || !strings.HasSuffix(comment, ".") {
		t.Errorf("%s.%s has no comment that begins with its name and is a sentence: %q", group.Name(), field, comment)
	}
	text := withoutSubject(comment, field)
	switch {
	case len(e.oneOf) > 0:
		text += " One of `" + strings.Join(e.oneOf, "`, `") + "`."
		if e.typ.Kind() == reflect.Slice {
			text = strings.Replace(text, " One of ", " Any of ", 1)
		}
	case e.min != "":
		text += fmt.Sprintf(" %s to %s.", e.min, e.max)
	}
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text)
}

func writeGroup(t *testing.T, b *strings.Builder, said map[string]string, g group, typ reflect.Type, path string) {
	t.Helper()
	defaults := Defaults()
	if path != "" {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", path, said[typ.Name()])
		if said[typ.Name()] == "" {
			t.Errorf("type %s has no comment", typ.Name())
		}
	}
	head := false
	for _, e := range g {
		if e.isGroup() {
			continue
		}
		if !head {
			b.WriteString("\n| key | environment variable | default | meaning |\n|---|---|---|---|\n")
			head = true
		}
		fmt.Fprintf(b, "| `%s` | `%s` | `%s` | %s |\n", e.path, e.variable(), flow(e.shown(e.in(&defaults))), meaning(t, said, typ, e))
		if e.inner != nil {
			for _, inner := range e.inner {
				fmt.Fprintf(b, "| `%s[].%s` | | | %s |\n", e.path, inner.name, meaning(t, said, e.typ.Elem(), inner))
			}
		}
	}
	for _, e := range g {
		if e.isGroup() {
			writeGroup(t, b, said, e.inner, e.typ, e.path)
		}
	}
}

// docs/configuration.md is generated from the comments.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(referenceHead)
	writeGroup(t, &b, comments(t), root(), reflect.TypeFor[Config](), "")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(reference, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(reference)
	if err != nil || string(is) != b.String() {
		t.Errorf("docs/configuration.md is not what the comments say (%v): run the test with UPDATE_GOLDEN=1", err)
	}
}

const referenceHead = `# Configuration

Generated from the comments in ` + "`server/config`" + ` by its tests: edit those, and run the tests with ` + "`UPDATE_GOLDEN=1`" + `.

Values come from a YAML (or JSON) file, then from the environment, then from the command line; each overrides the one before. The file is
the one that the command line names, or else the variable ` + "`FLUXGATE_CONFIG`" + `. Everything is below ` + "`fluxgate`" + `:

` + "```yaml" + `
fluxgate:
  redis:
    uri: redis://localhost:6379
    timeout: 50ms
  ratelimit:
    trusted-proxies: [10.0.0.0/8, "2001:db8::/32"]
` + "```" + `

The same in the environment, and as assignments of ` + "`--set`" + ` on the command line:

` + "```sh" + `
FLUXGATE_REDIS_TIMEOUT=50ms FLUXGATE_RATELIMIT_TRUSTED_PROXIES=10.0.0.0/8,2001:db8::/32
redis.timeout=50ms ratelimit.trusted-proxies=10.0.0.0/8,2001:db8::/32
` + "```" + `

- A time has its unit: ` + "`100ms`, `30s`, `1h30m`" + `. A size is a number of bytes.
- A list is written with commas in the environment and on the command line, and may be in the file. It replaces the whole list that it overrides. The
  lists of tokens and certificates, and keys with names below them, are written everywhere as in a file: ` + "`[{name: ci, sha256: …, roles: [check]}]`" + `,
  ` + "`{tier: X-Tier}`" + `.
- An unknown key, an unknown ` + "`FLUXGATE_`" + ` variable or an invalid value is an error: the server does not start. The error has the position, and
  often a suggestion. Variables that Kubernetes sets for a service called ` + "`fluxgate`" + `, and ` + "`FLUXGATE_TEST_…`" + `, are ignored.
- No output shows secrets: passwords in URIs and the hashes of tokens are masked. Other secrets are in files of their own.
`
