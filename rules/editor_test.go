package rules_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// A change needs an author and printable text.
func TestChange_Check(t *testing.T) {
	for name, c := range map[string]struct {
		change rules.Change
		want   string // in the error; empty if there is none
	}{
		"signed":                                 {rules.Change{Author: "ada"}, ""},
		"signed in any script":                   {rules.Change{Author: "Ада Лавлейс 艾达 <ada@example.com>"}, ""},
		"based on the largest revision":          {rules.Change{Base: math.MaxInt64, Author: "ada"}, ""},
		"explained in lines":                     {rules.Change{Author: "ada", Comment: "one\n\ttwo"}, ""},
		"by an author of 256 bytes":              {rules.Change{Author: strings.Repeat("ü", 128)}, ""},
		"explained in 1,024 bytes":               {rules.Change{Author: "ada", Comment: strings.Repeat("x", 1024)}, ""},
		"based on a negative revision":           {rules.Change{Base: -1, Author: "ada"}, "negative"},
		"without an author":                      {rules.Change{Comment: "why"}, "needs an author"},
		"by an author of blanks":                 {rules.Change{Author: " \u00a0\u3000"}, "needs an author"},
		"by an author of 257 bytes":              {rules.Change{Author: strings.Repeat("x", 257)}, "author of a change can have 256 bytes, not 257"},
		"explained in 1,025 bytes":               {rules.Change{Author: "ada", Comment: strings.Repeat("x", 1025)}, "comment of a change can have 1024 bytes, not 1025"},
		"by an author of two lines":              {rules.Change{Author: "ada\nroot"}, "author of a change cannot contain U+000A"},
		"by an author with a tab":                {rules.Change{Author: "ada\troot"}, "U+0009"},
		"by an author with an escape":            {rules.Change{Author: "ada\x1b[31m"}, "U+001B"},
		"by an author with a direction override": {rules.Change{Author: "ada\u202e"}, "U+202E"},
		"by an author with a hidden character":   {rules.Change{Author: "a\u200bda"}, "U+200B"},
		"by an author that is not UTF-8":         {rules.Change{Author: "ada\xff"}, "author of a change must be UTF-8"},
		"explained with a carriage return":       {rules.Change{Author: "ada", Comment: "a\rb"}, "comment of a change cannot contain U+000D"},
		"explained with a zero":                  {rules.Change{Author: "ada", Comment: "\x00"}, "U+0000"},
		"explained in invalid UTF-8":             {rules.Change{Author: "ada", Comment: "\xc3\x28"}, "comment of a change must be UTF-8"},
		"explained with a new line control":      {rules.Change{Author: "ada", Comment: "\u0085"}, "U+0085"},
	} {
		err := c.change.Check()
		if c.want == "" {
			if err != nil {
				t.Errorf("a change %s is refused: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a change %s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A change is accepted only for the revision it is based on.
func TestChange_CheckHead(t *testing.T) {
	for name, c := range map[string]struct {
		base    int64
		head    rules.Head
		current int64 // in the conflict; -1 if there is none
		text    string
	}{
		"a first change":                   {0, rules.Head{}, -1, ""},
		"a change of the current revision": {3, rules.Head{Revision: 3}, -1, ""},
		"a change of a deleted rule set":   {0, rules.Head{Revision: 3, Deleted: true}, -1, ""},
		"a first change of an existing rule set": {0, rules.Head{Revision: 3}, 3,
			`rule set "api" exists already, at revision 3`},
		"a change of an old revision": {2, rules.Head{Revision: 3}, 3,
			`rule set "api" is at revision 3, not at 2: another operator changed it`},
		"a change of a future revision": {4, rules.Head{Revision: 3}, 3,
			`rule set "api" is at revision 3, not at 4: another operator changed it`},
		"a change of an unknown rule set": {1, rules.Head{}, 0,
			`rule set "api" is not at revision 1: it does not exist`},
		"a change of a revision before the deletion": {2, rules.Head{Revision: 3, Deleted: true}, 0,
			`rule set "api" is not at revision 2: it does not exist`},
		"a change of the deletion itself": {3, rules.Head{Revision: 3, Deleted: true}, 0,
			`rule set "api" is not at revision 3: it does not exist`},
	} {
		err := rules.Change{Base: c.base}.CheckHead("api", c.head)
		if c.current < 0 {
			if err != nil {
				t.Errorf("%s is refused: %v", name, err)
			}
			continue
		}
		var conflict *rules.ConflictError
		want := rules.ConflictError{RuleSetID: "api", Base: c.base, Current: c.current}
		if !errors.As(err, &conflict) || *conflict != want {
			t.Errorf("%s: %#v, want %#v", name, err, want)
			continue
		}
		if err.Error() != c.text {
			t.Errorf("%s says %q, want %q", name, err, c.text)
		}
	}
}

// A page has at most MaxPage entries.
func TestPageSize_Limits(t *testing.T) {
	for limit, want := range map[int]int{
		1: 1, 50: 50, rules.MaxPage: rules.MaxPage,
		0: rules.MaxPage, -1: rules.MaxPage, math.MinInt: rules.MaxPage,
		rules.MaxPage + 1: rules.MaxPage, math.MaxInt: rules.MaxPage,
	} {
		if got := rules.PageSize(limit); got != want {
			t.Errorf("a page of %d has %d entries, want %d", limit, got, want)
		}
	}
}
