package yamltree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// read parses one valid document.
func read(t testing.TB, name, content string) *yamltree.Node {
	t.Helper()
	file, flaws := yamltree.Read(name, []byte(content))
	if len(flaws) > 0 || len(file.Documents) != 1 {
		t.Fatalf("%d documents, flaws %v in\n%s", len(file.Documents), flaws, content)
	}
	return file.Documents[0]
}

func asJSON(t testing.TB, n *yamltree.Node) string {
	t.Helper()
	data, err := json.Marshal(n.Tree())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// YAML is parsed as JSON in another layout, with numbers as written.
func TestRead_YAML(t *testing.T) {
	for content, want := range map[string]string{
		"a: 1\nb: [x, 'y', \"z\"]\nc: {d: true, e: null}\n": `{"a":1,"b":["x","y","z"],"c":{"d":true,"e":null}}`,
		"a:\n- 1\n- b: 2\n  c: 3\nd:\n":                     `{"a":[1,{"b":2,"c":3}],"d":null}`,
		"[1.50, 1E5, -0, 12345678901234567890123, 1e400]":   `[1.50,1E5,-0,12345678901234567890123,1e400]`,
		"[yes, on, ~, 10ms, 1.2.3, a#b, 2024-01-01]":        `["yes","on",null,"10ms","1.2.3","a#b","2024-01-01"]`,
		`{n: "a\tb", 'it''s': "\u00e9\U0001f600"}`:          `{"it's":"é😀","n":"a\tb"}`,
		"n: |\n  a\tb:  c \n   d\n":                         `{"n":"a\tb:  c \n d\n"}`,
		"\ufeffa: b # c\r\n":                                `{"a":"b"}`,
		"---\n# nothing\n---\na: b\n...\n---\n":             `{"a":"b"}`,
	} {
		if got := asJSON(t, read(t, "x.yaml", content)); got != want {
			t.Errorf("%q is read as %s, want %s", content, got, want)
		}
	}
}

// YAML that JSON cannot express is rejected, and so are probable mistakes.
func TestRead_NotJSON(t *testing.T) {
	for name, content := range map[string]string{
		"an octal number": "a: 0755", "a hexadecimal number": "a: 0x10", "a number with underlines": "a: 1_000", "a number with a plus": "a: +1",
		"infinity": "a: .inf", "not a number": "a: .nan", "half a number": "a: .5", "an anchor": "a: &x {n: 1}", "an alias": "a: *x", "an alias of an anchor": "a: &x 1\nb: *x",
		"a merge key": "<<: {a: 1}", "a tag": "a: !!int 1", "an empty tag": "a: ! [b]", "a list as a key": "? [a]\n: 1", "a key without a name": ": 1", "a directive": "%YAML 1.2\n---\na: 1",
		"a key twice": "a: 1\na: 1", "a key twice in quotes": "a: 1\n\"\\u0061\": 1", "a control character": "a: \"b\x00c\"", "another encoding": "\xff\xfea\x00",
		"a missing comma": "{a: /b c: d}", "an item out of its list": "a:\n  b\n  - c", "a tab in a number": "a: 1\t2", "a tab in a key": "a\tb: 1",
		"a tab in a text": "a: b\tc", "a colon on its own": "a\n: 1", "a list with a colon": "[GET:, POST]", "an old line end": "a: b\rc: d\r",
	} {
		if file, flaws := yamltree.Read("x.yaml", []byte(content)); len(flaws) == 0 || len(file.Documents) > 0 {
			t.Errorf("%s is read as %v", name, file.Documents)
		}
	}
}

// Values have the positions of the file, in YAML and in JSON.
func TestNode_LocatePlace(t *testing.T) {
	files := map[string]string{
		"x.yaml": "top:\n  list:\n    - é: {deep: 1}\n    - 2\n",
		"x.json": "{\"top\":\n  {\"list\": [\n    {\"é\": {\"deep\": 1}},\n    2]}}\n",
	}
	for name, want := range map[string]map[string]yamltree.Position{
		"x.yaml": {
			"top.list[0].é.deep": {Line: 3, Column: 17},
			"top.list[1]":        {Line: 4, Column: 7},
			"top.list":           {Line: 2, Column: 3},
			"top.missing.more":   {Line: 1, Column: 1},
		},
		"x.json": {
			"top.list[0].é.deep": {Line: 3, Column: 20},
			"top.list[1]":        {Line: 4, Column: 5},
		},
	} {
		root := read(t, name, files[name])
		for place, spot := range want {
			if got := root.LocatePlace(place); got != spot {
				t.Errorf("%s in %s is at %+v, want %+v", place, name, got, spot)
			}
		}
	}
}

// A problem shows its position.
func TestFile_Problem(t *testing.T) {
	file, _ := yamltree.Read("x.yaml", []byte("a: 1\n"))
	for want, at := range map[string]yamltree.Position{
		"x.yaml:1:4: place: message": {Line: 1, Column: 4}, "x.yaml: place: message": {}, "--set a: place: message": {Source: "--set a"},
	} {
		if got := file.Problem(at, "place", "message").String(); got != want {
			t.Errorf("%+v is shown as %s, want %s", at, got, want)
		}
	}
	if got := (yamltree.Problem{Message: "message"}).String(); got != "message" {
		t.Errorf("a problem without a file is %q", got)
	}
}

// An error has at most 100 problems, in the order of their lines.
func TestError(t *testing.T) {
	var several yamltree.ErrorList
	for _, p := range []yamltree.Problem{{Message: "a"}, {File: "g", Line: 1, Message: "b"}, {File: "f", Line: 2, Message: "c"}, {File: "f", Line: 1, Message: "d"}} {
		several.Add(p)
	}
	several.Sort()
	if got := several.Error(); got != "f:1:0: d\nf:2:0: c\ng:1:0: b\na" {
		t.Errorf("several are %q", got)
	}
	for range 99 {
		several.Add(yamltree.Problem{Message: "x"})
	}
	if got := several.Error(); len(several.Problems) != 100 || !strings.HasSuffix(got, "x\nand 3 more problems") {
		t.Errorf("many are %q", got)
	}
}

// Hostile files are rejected or parsed within bounded time.
func TestRead_Hostile_NoRace(t *testing.T) {
	repeat := strings.Repeat
	staircase := ""
	for i := range 100 {
		staircase += repeat(" ", i) + "a:\n"
	}
	for _, c := range []struct{ name, file, content, says string }{
		{"brackets", "x.yaml", repeat("[", 900_000), "nested deeper"},
		{"brackets", "x.json", repeat("[", 900_000), "exceeded max depth"},
		{"keys in a line", "x.yaml", repeat("a: ", 1<<14), "a colon is not allowed here"},
		{"a staircase", "x.yaml", staircase, "nested deeper"},
		{"question marks", "x.yaml", repeat("? ", 1<<14), "nested deeper"},
		{"dashes", "x.yaml", repeat("- ", 1<<20), "a file can have at most 1000000 values"},
		{"duplicate keys", "x.yaml", repeat("a: b\n", 1<<15), `duplicate key "a", first in line 1`},
		{"values left out", "x.yaml", "a:\n" + repeat("  - b:\n", 1<<15), ""},
		{"one long line", "x.yaml", "[" + repeat("é: [b], ", 1<<15) + "]", ""},
		{"comments", "x.yaml", "a:\n" + repeat("  - b\n    #\n", 1<<15), ""},
		{"a quote that is not closed", "x.yaml", "a: '" + repeat("b: c\n", 1<<15), "the closing quote is missing"},
		{"documents", "x.yaml", repeat("---\na\n", 1<<15), ""},
		{"values", "x.json", "[" + repeat("1,", 1<<20) + "1]", "can have at most 1000000 values"},
		{"aliases of aliases", "x.yaml", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "anchors are not supported"},
		{"an end that is missing", "x.json", `{"a": [1, `, "unexpected end of JSON input"},
	} {
		start := time.Now()
		_, flaws := yamltree.Read(c.file, []byte(c.content))
		if (len(flaws) > 0) != (c.says != "") || len(flaws) > 100 || c.says != "" && !strings.Contains(flaws[0].Message, c.says) {
			t.Errorf("%s in %s: flaws %.300v, want %q", c.name, c.file, flaws, c.says)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s in %s took %s", c.name, c.file, took)
		}
	}
}

// Syntax errors are shown where they begin, not where the parser detects them.
func TestRead_SyntaxErrors(t *testing.T) {
	for content, want := range map[string]string{
		"a:\n  b:\n    c: 1\n   d: 2\n":       "4:4: this does not fit the lines above",
		"- a: 1\n  b: 2\n - c: 3\n":           "3:2: this does not fit the list above",
		"a: 1\nb: 'x\nc: 2\nd: 3\n":           "2:1: the closing quote is missing",
		"a: 'x\nb: 2\n":                       "1:1: the closing quote is missing",
		"a: 1\nb: [1,\n  2\nc: 3\nd: 4\n":     "2:1: a comma or the closing ] is missing",
		"a: {b: 1,\n c: 2}\nd: {e: 1 f: 2}\n": "3:1: a comma or the closing } is missing",
		"a: 1\nb\nc: 2\n":                     "2:1: the colon and a space are missing",
		"a: 1\nb: c: d\n":                     "2:1: a colon is not allowed here",
		"a:\n\t- b\n":                         "2:2: a tab is not allowed here",
		"a: 1\nb: @c\n":                       "2:1: a string cannot begin with this character",
		"a: 1\nb: - c\n":                      "2:1: a list cannot begin here",
		"a: 1\nb: *c\n":                       "2:1: aliases are not supported",
		"a:\n  - b\n   c\n":                   "2:5: a string of several lines must be in quotes",
		"a: [b, c:]\n":                        "1:8: a string that ends in a colon must be in quotes",
		"a: 1\nb: 'c\n" + strings.Repeat("d: [e,\n  f]\n", 500): "2:1: the closing quote is missing",
	} {
		_, flaws := yamltree.Read("x.yaml", []byte(content))
		if len(flaws) != 1 {
			t.Errorf("%q has the flaws %v", content, flaws)
			continue
		}
		if got := fmt.Sprintf("%d:%d: %s", flaws[0].At.Line, flaws[0].At.Column, flaws[0].Message); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
}

// Every string is parsed as itself after Quoted, also in braces and as a key.
func FuzzQuoted(f *testing.F) {
	for _, s := range []string{"", "a", "yes", "Null", "a:", "a: b", "/api/*", "1h", "1e3", "redis://a:1/2", "é\U000e0041\x7f\u2028", "it's \"x\"", "- a", "a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := yamltree.Quoted(s)
		if !utf8.ValidString(s) || len(q) > 1_000 { // a key can have 1024 characters
			return
		}
		want, _ := json.Marshal([]any{s, map[string]string{s: s}})
		for _, content := range []string{"- " + q + "\n- " + q + ": " + q + "\n", "[" + q + ", {" + q + ": " + q + "}]"} {
			if got := asJSON(t, read(t, "x.yaml", content)); got != string(want) {
				t.Fatalf("%q is read as %s, want %s", content, got, want)
			}
		}
	})
}

// Any content is a list of documents that JSON can represent, or a printable flaw.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb:\n  - c: {d: [e, 'f']}\n", "---\na: |\n  b\n\n c: d\n---\n[]\n", `{"a": [1e3, "\ud83d\ude00", null], "a": 1}`, "a:\n\t- b\n", "? a\n: b\n", "{[{[", "\ufeffa: 0x1\r\n",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, asJSONFile bool) {
		name := "x.yaml"
		if asJSONFile {
			name = "x.json"
		}
		file, flaws := yamltree.Read(name, data)
		for _, flaw := range flaws {
			if flaw.Message == "" || file.Problem(flaw.At, "", flaw.Message).String() == "" {
				t.Fatal("a flaw without a message")
			}
		}
		if len(flaws) > 0 && len(file.Documents) > 0 {
			t.Fatal("documents of a file with flaws")
		}
		for _, root := range file.Documents {
			if again := asJSON(t, read(t, "x.json", asJSON(t, root))); again != asJSON(t, root) {
				t.Fatalf("encoded and parsed again it is %s, not %s", again, asJSON(t, root))
			}
		}
	})
}
