package main

import "testing"

// Blank lines and comments do not count, and each line of a raw string does.
func TestCount_Lines(t *testing.T) {
	for path, c := range map[string]struct {
		source string
		want   int
	}{
		"a.go":  {"// Package a is one.\npackage a\n\n/* a\n   b */\nvar x = `1\n2\n` // three\n\nfunc f() {\n\tg(1,\n\t\t2)\n}\n", 8},
		"b.lua": {"-- a comment\nlocal x = 1 -- code\n\n  -- another\nreturn x\n", 2},
	} {
		if got := count(path, []byte(c.source)); got != c.want {
			t.Errorf("%s: %d, want %d", path, got, c.want)
		}
	}
}
