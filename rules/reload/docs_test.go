package reload_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// blocks returns the fenced blocks of a language in a page.
func blocks(t *testing.T, name, language string) (found []string) {
	t.Helper()
	fences := strings.Split("\n"+page(t, name), "\n```")
	for i := 1; i < len(fences); i += 2 {
		if head, body, _ := strings.Cut(fences[i], "\n"); head == language {
			found = append(found, body+"\n")
		}
	}
	if len(found) == 0 {
		t.Fatalf("docs/%s has no block of %q", name, language)
	}
	return found
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// open reads a document as a rule file.
func open(t *testing.T, document string) error {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rules.yaml", []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := filerules.Open("rules.yaml", filerules.Config{})
	if err != nil {
		return err
	}
	_, err = source.Revisions(t.Context(), nil)
	return err
}

// The rules in the documentation are valid, and every field has an example.
func TestDocs_Rules(t *testing.T) {
	examples := slices.Concat(blocks(t, "rules.md", "yaml"), blocks(t, "limits.md", "yaml"), blocks(t, "llm.md", "yaml"))
	examples = slices.DeleteFunc(examples, func(example string) bool { return strings.HasPrefix(example, "fluxgate:") }) // settings
	for _, example := range examples {
		t.Run(strings.SplitN(example, "\n", 2)[0], func(t *testing.T) {
			if strings.HasPrefix(example, "- ") {
				example = "id: docs\nrules:\n" + example
			}
			if err := open(t, example); err != nil {
				t.Error(err)
			}
		})
	}
	all := strings.Join(examples, "\n")
	for name := range documentedFields(t) {
		switch name {
		case "_id", "ruleSetId", "createdAt", "updatedAt": // set by the source
			continue
		}
		if !regexp.MustCompile(`\b` + name + `:`).MatchString(all) {
			t.Errorf("docs/rules.md, docs/limits.md and docs/llm.md have no example of %s", name)
		}
	}
}

// documentedFields are the fields in the tables of docs/rules.md.
func documentedFields(t *testing.T) map[string]bool {
	t.Helper()
	fields := map[string]bool{}
	_, tables, _ := strings.Cut(page(t, "rules.md"), "## Fields\n")
	tables, _, _ = strings.Cut(tables, "### What a rule matches")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(tables, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			fields[name[1]] = true
		}
	}
	return fields
}

// The tables of fields have those of the documents, and no others.
func TestDocs_Fields(t *testing.T) {
	want := map[string]bool{"_id": true, "windowSeconds": true} // other names, which are only read
	for _, document := range []any{
		rules.RuleSetDocument{}, rules.RuleDocument{}, rules.BandDocument{}, rules.When{}, rules.DescriptorMatch{}, rules.Weights{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(document)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want[name] = true
		}
	}
	if got := documentedFields(t); !maps.Equal(got, want) {
		t.Errorf("docs/rules.md has the fields\n%v\nand not\n%v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// Of the rules for descriptors in the documentation one applies to each request.
func TestDocs_Descriptors(t *testing.T) {
	shown := blocks(t, "rules.md", "yaml")
	example := shown[slices.IndexFunc(shown, func(s string) bool { return strings.Contains(s, "descriptor:tenant") })]
	sets, err := filerules.Parse("rules.yaml", []byte("id: docs\nrules:\n"+example))
	if err != nil {
		t.Fatal(err)
	}
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	t.Cleanup(func() { _ = store.Close() })
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(sets...), fluxgate.WithRuleSet("docs")))
	for descriptor, want := range map[string]string{
		"generic_key=login,remote_address=192.0.2.7": "login-per-client",
		"tenant=acme":              "tenant-acme",
		"tenant=trial-7":           "tenant-trial",
		"tenant=acme-2":            "tenant-other",
		"tenant=":                  "tenant-other",
		"remote_address=192.0.2.7": "",
		"tenant=acme,tenant=acme":  "",
		strings.Repeat("tenant=,", 16) + "tenant=": "",
	} {
		var req fluxgate.Request
		for entry := range strings.SplitSeq(descriptor, ",") {
			key, value, _ := strings.Cut(entry, "=")
			req.Descriptor = append(req.Descriptor, fluxgate.DescriptorEntry{Key: key, Value: value})
		}
		_, verdicts, err := engine.Effective(t.Context(), &req)
		var applying []string
		for _, v := range verdicts {
			if v.Applies {
				applying = append(applying, v.Rule.ID)
			}
		}
		if got := strings.Join(applying, " "); err != nil || got != want {
			t.Errorf("%s is limited by %q, want %q (%v)", descriptor, got, want, err)
		}
	}
}

// The mistake in the documentation is reported as it is shown there.
func TestDocs_Mistake(t *testing.T) {
	document := `id: api-limits
rules:
  - id: everyone
    limitScope: IP
    bands:
      - { label: b, capacity: 0, refill: 1s }
`
	shown := blocks(t, "rules.md", "")
	err := open(t, document)
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, block := range shown {
		if strings.TrimSpace(block) == strings.TrimSpace(err.Error()) {
			return
		}
	}
	t.Errorf("docs/rules.md does not show\n%v", err)
}
