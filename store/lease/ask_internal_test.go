package lease

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// transitions reads the table in the comment of the type asker: state, event and next state.
func transitions(t *testing.T) (rows [][]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "ask.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Specs[0].(*ast.TypeSpec).Name.Name != "asker" {
			continue
		}
		for line := range strings.Lines(g.Doc.Text()) {
			if cells, found := strings.CutPrefix(line, "\t"); found {
				rows = append(rows, regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(cells), -1))
			}
		}
	}
	if len(rows) < 2 {
		t.Fatal("no table in the comment of the type")
	}
	return rows[1:]
}

// The table is what happens: each event in its state, and nothing is missing from it.
func TestAsker_Transitions(t *testing.T) {
	names := []string{ready: "ready", calling: "calling", resting: "resting", pausing: "pausing"}
	now := time.Unix(1_700_000_000, 0)
	enter := map[string]func(a *asker){
		"ready":   func(*asker) {},
		"calling": func(a *asker) { a.begin() },
		"resting": func(a *asker) { a.begin(); a.rest(now, nil) },
		"pausing": func(a *asker) { a.begin(); a.pause(now, 3) },
	}
	later := now
	events := map[string]func(a *asker){
		"begin": func(a *asker) { a.begin() },
		"end":   func(a *asker) { a.end(nil) },
		"rest":  func(a *asker) { a.rest(now, nil) },
		"pause": func(a *asker) { a.pause(now, 3) },
		"pass":  func(a *asker) { later = a.after },
	}
	var seen []string
	for _, row := range transitions(t) {
		if len(row) != 3 {
			t.Fatalf("%q has no three columns", row)
		}
		event, _, _ := strings.Cut(row[1], ":")
		var a asker
		enter[row[0]](&a)
		if got := names[a.state(now)]; got != row[0] {
			t.Errorf("%s is %s", row[0], got)
		}
		later = now
		events[event](&a)
		if before := a.state(later.Add(-1)); event == "pass" && names[before] != row[0] {
			t.Errorf("%s ends early", row[0])
		}
		if got := names[a.state(later)]; got != row[2] {
			t.Errorf("%s in state %s leads to %s, not to %s", event, row[0], got, row[2])
		}
		seen = append(seen, row[0]+" "+event)
	}
	for _, all := range []string{"ready begin", "calling end", "calling rest", "calling pause", "resting pass", "pausing pass"} {
		if !slices.Contains(seen, all) {
			t.Errorf("the table says nothing of %q", all)
		}
	}
}

// Requests that cost less than a pause refuses are not refused, and none once it is over. A
// pause lasts between 3/4 and 5/4 of Pause.
func TestAsker_Pause(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for range 100 {
		var a asker
		a.begin()
		a.pause(now, 3)
		first, last := now.Add(Pause*3/4-1), now.Add(MaxPause)
		if !a.refuses(now, 3) || a.refuses(now, 2) || !a.refuses(first, 3) || a.refuses(last, 3) {
			t.Errorf("a pause until %v refuses something else", a.refuseUntil.Sub(now))
		}
	}
}

// A request that waits for a slice fails with the store, but not because the request that
// asked has left.
func TestSliceCall_Wait(t *testing.T) {
	down := errors.New("down")
	for of, want := range map[error]error{
		nil: nil, down: down, context.Canceled: nil, fmt.Errorf("late: %w", context.DeadlineExceeded): nil,
	} {
		c := &sliceCall{done: make(chan struct{}), err: of}
		close(c.done)
		if err := c.wait(t.Context()); !errors.Is(err, want) {
			t.Errorf("a call that ends with %v: %v", of, err)
		}
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&sliceCall{}).wait(left); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
}
