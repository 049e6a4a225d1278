package model

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var writeDocs = flag.Bool("write-docs", false, "write the bounds into docs/reliability.md")

const (
	boundsPage = "../../docs/reliability.md"
	boundsFrom = "<!-- The table is written by go test ./internal/model -run TestBounds_Docs -write-docs. -->\n\n"
	boundsTo   = "\n<!-- The end of the table. -->"
)

// The pages publish what the specification demands.
func TestBounds_Docs(t *testing.T) {
	text, err := os.ReadFile(boundsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), boundsFrom)
	table, after, ends := strings.Cut(rest, boundsTo)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", boundsPage)
	}
	want := boundsTable(t)
	if *writeDocs {
		table = want
		if err := os.WriteFile(boundsPage, []byte(before+boundsFrom+table+boundsTo+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if table != want {
		t.Errorf("%s does not have the bounds of bounds.go. It has\n%s\nand should have\n%s", boundsPage, table, want)
	}
	for page, times := range map[string][]time.Duration{
		"../../docs/reliability.md": {leaseTime, callTimeout},
		"../../docs/scaling.md":     {leaseTime, refusedWhileFree},
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if page == "../../docs/scaling.md" && (usedPart.Cmp(big.NewRat(9, 10)) != 0 || !strings.Contains(string(text), "nine tenths of its refill")) {
			t.Errorf("%s does not say which part of a saturated bucket is used", page)
		}
		for _, d := range times {
			if words := strings.Replace(d.String(), "ms", " ms", 1); !strings.Contains(string(text), words) {
				t.Errorf("%s does not say %s", page, words)
			}
		}
	}
}

// boundsTable has a row for each function of bounds.go whose comment is "name is what …
// admits: …" or "name is what … adds: …".
func boundsTable(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "bounds.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var admits, adds []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		comment := strings.Join(strings.Fields(f.Doc.Text()), " ")
		what, bound, ok := strings.Cut(strings.TrimPrefix(comment, f.Name.Name+" is what "), ": ")
		switch row := func(what string) string { return "| " + what + " | " + bound + " |\n" }; {
		case !ok || comment == "":
		case strings.HasSuffix(f.Name.Name, "Bound"):
			admits = append(admits, row(strings.Replace(what, " admits", "", 1)))
		case strings.HasSuffix(f.Name.Name, "Adds"):
			adds = append(adds, row(strings.Replace(what, " adds", "", 1)))
		}
	}
	return "| limit | admits |\n|---|---|\n" + strings.Join(admits, "") + "\n| event | more, at most |\n|---|---|\n" + strings.Join(adds, "")
}

func TestBounds(t *testing.T) {
	bucket := &rules.Band{Capacity: 10, RefillTokens: 3, Refill: 2 * time.Second}
	plan := &rules.Band{Kind: rules.Quota, Capacity: 10, Period: "day"}
	for name, c := range map[string]struct {
		got  *big.Rat
		want *big.Rat
	}{
		"token bucket":        {tokenBucketBound(bucket, time.Second), big.NewRat(23, 2)},
		"quota":               {quotaBound(plan), whole(10)},
		"lease":               {leaseAdds(bucket), big.NewRat(3, 8)},
		"outage":              {outageAdds(bucket, 4, 0), whole(2)},
		"outage, many":        {outageAdds(bucket, 40, 0), whole(1)},
		"outage, waiting":     {outageAdds(bucket, 3, 2*time.Second), whole(4)},
		"outage, refill":      {outageRefills(bucket, 3, 2*time.Second), whole(1)},
		"reset":               {resetAdds(bucket, time.Second, time.Second), whole(13)},
		"reset seen late":     {resetAdds(bucket, time.Minute, 0), whole(100)},
		"reset of a quota":    {resetAdds(plan, time.Hour, time.Hour), whole(10)},
		"loss":                {lossAdds(bucket, 2*time.Second), whole(13)},
		"step":                {stepAdds(bucket, time.Second, time.Second, whole(0)), big.NewRat(3, 2)},
		"step of an hour":     {stepAdds(bucket, time.Hour, 0, whole(0)), whole(10)},
		"step over a wait":    {stepAdds(bucket, time.Hour, 2*time.Second, whole(0)), whole(13)},
		"step over debt":      {stepAdds(bucket, time.Hour, 0, whole(7)), whole(17)},
		"short step":          {stepAdds(bucket, time.Second, 0, whole(7)), big.NewRat(3, 2)},
		"step back":           {stepAdds(bucket, -time.Hour, time.Second, whole(0)), whole(0)},
		"step of a quota":     {stepAdds(plan, time.Second, time.Second, whole(0)), whole(10)},
		"change":              {changeAdds(bucket), whole(10)},
		"change of a quota":   {changeAdds(plan), whole(0)},
		"refill of a quota":   {regained(plan, time.Hour), whole(0)},
		"overdraft":           {overdraftAdds(7), whole(7)},
		"killed, not charged": {unchargedAdds(bucket, 2, 0, 0), whole(5)},
	} {
		if c.got.Cmp(c.want) != 0 {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
