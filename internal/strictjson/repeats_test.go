package strictjson_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/strictjson"
)

// Repeats finds what Check finds.
func TestRepeats(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("%q:1", fmt.Sprint("n", i))
	}
	for text, want := range map[string]bool{
		`{"cost":1,"peek":true}`:                                                false,
		`{"cost":1,"cost":2}`:                                                   true,
		`{"cost":1,"c\u006fst":2}`:                                              true,
		`{"cost":1, "peek" : {"cost" : 1}}`:                                     false,
		`{"a":{"x":1},"b":{"x":1},"a":1}`:                                       true,
		`{"a":"b:","b":"{\"a\":1}"}`:                                            false,
		`{"a":["a","a",{"b":1},{"b":1}],"b":[]}`:                                false,
		`{"a":[{"b":1,"c":{},"b":1}]}`:                                          true,
		`{` + strings.Join(many, ",") + `}`:                                     false,
		`{` + strings.Join(many, ",") + `,"n3":1}`:                              true,
		strings.Repeat(`{"a":`, 30) + `1` + strings.Repeat(`}`, 30):             false,
		strings.Repeat(`{"a":`, 30) + `{"b":1,"b":1}` + strings.Repeat(`}`, 30): true,
	} {
		if got := strictjson.Repeats([]byte(text)) != nil; got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		text := []byte(randomJSON(r, 4))
		if !json.Valid(text) {
			t.Fatalf("not valid: %s", text)
		}
		got, want := fmt.Sprint(strictjson.Repeats(text)), fmt.Sprint(strictjson.Check(text))
		if got != want {
			t.Fatalf("%s: %s, want %s", text, got, want)
		}
	}
}

func randomJSON(r *rand.Rand, depth int) string {
	name := func() string { return []string{`"a"`, `"b"`, `"c"`, `"d\""`, `"\u0061"`, `" : "`, `"{"`}[r.IntN(7)] }
	var parts []string
	kind := r.IntN(4)
	if depth == 0 {
		kind = 2 + r.IntN(2)
	}
	switch kind {
	case 0:
		for range r.IntN(5) {
			parts = append(parts, name()+" :"+randomJSON(r, depth-1))
		}
		return "{" + strings.Join(parts, " ,") + "}"
	case 1:
		for range r.IntN(4) {
			parts = append(parts, randomJSON(r, depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case 2:
		return name()
	}
	return "1e3"
}

// The check of a request's names does not allocate.
func TestRepeats_Allocations(t *testing.T) {
	text := []byte(`{"ruleSet":"api","ip":"192.0.2.1","userId":"ann","method":"GET","path":"/orders","headers":{"X-Tier":"gold"}}`)
	if n := testing.AllocsPerRun(100, func() { _ = strictjson.Repeats(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRepeats(b *testing.B) {
	text := []byte(`{"ruleSet":"api","ip":"192.0.2.1","userId":"ann","method":"GET","path":"/orders","peek":true}`)
	b.Run("repeats", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = strictjson.Repeats(text)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var asked struct {
				RuleSet, IP, UserID, Method, Path string
				Peek                              bool
			}
			_ = json.Unmarshal(text, &asked)
		}
	})
}
