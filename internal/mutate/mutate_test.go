package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func changes(t *testing.T, mutants []mutant, source string) []string {
	t.Helper()
	var all []string
	for _, m := range mutants {
		changed := source[:m.start] + m.text + source[m.end:]
		all = append(all, fmt.Sprintf("%d: %s: %s", m.number, m.what, strings.TrimSpace(strings.Split(changed, "\n")[m.number-1])))
	}
	return all
}

func requireChanges(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestGoMutants(t *testing.T) {
	source := `package p

import "v2"

func f(x int64, names [3]string) (n int64, err error) {
	if x < 2 {
		return 0, nil
	}
	n += min(x, 3)
	log(n)
	switch {
	case ok(n):
		return n, nil
	}
	y := n + x + x
	return y - 1, err
}
`
	requireChanges(t, changes(t, goMutants("f.go", []byte(source)), source),
		"6: < becomes <=: if x <= 2 {",
		"6: 2 becomes 3: if x < 3 {",
		"6: condition negated: x < 2: if !(x < 2) {",
		"6: left out: if x < 2 {: ",
		"7: 0 becomes 1: return 1, nil",
		"9: += becomes -=: n -= min(x, 3)",
		"9: 3 becomes 4: n += min(x, 4)",
		"9: left out: n += min(x, 3): ",
		"9: min becomes max: n += max(x, 3)",
		"10: left out: log(n): ",
		"12: condition negated: ok(n): case !(ok(n)):",
		"13: zero returned: return *new(int64), *new(error)",
		"15: + becomes - (2): y := n - x + x",
		"15: + becomes -: y := n + x - x",
		"16: - becomes +: return y + 1, err",
		"16: 1 becomes 2: return y - 2, err",
		"16: zero returned: return *new(int64), *new(error)",
	)
}

func TestLuaMutants(t *testing.T) {
	source := `-- if x < 1 then
local function f(x, max)
  if x >= max and x ~= -1 then
    x, y[3 * i] = math.min(x, 2), '< 1'
    call('DEL', x)
  end
  if not x then return x end
  for i = 1, max do
    g = {
  end
  return 0
end
`
	requireChanges(t, changes(t, luaMutants("f.lua", []byte(source)), source),
		"3: >= becomes >: if x > max and x ~= -1 then",
		"3: and becomes or: if x >= max or x ~= -1 then",
		"3: ~= becomes ==: if x >= max and x == -1 then",
		"3: 1 becomes 2: if x >= max and x ~= -2 then",
		"3: condition negated: x >= max and x ~= -1: if not (x >= max and x ~= -1) then",
		"4: 3 becomes 4: x, y[4 * i] = math.min(x, 2), '< 1'",
		"4: * becomes /: x, y[3 / i] = math.min(x, 2), '< 1'",
		"4: math.min becomes math.max: x, y[3 * i] = math.max(x, 2), '< 1'",
		"4: 2 becomes 3: x, y[3 * i] = math.min(x, 3), '< 1'",
		"4: left out: x, y[3 * i] = math.min(x, 2), '< 1': ",
		"5: left out: call('DEL', x): ",
		"7: condition negated: not x: if not (not x) then return x end",
		"7: zero returned: if not x then return 0 end",
		"7: left out: if not x then return x end: ",
		"8: 1 becomes 2: for i = 2, max do",
		"11: 0 becomes 1: return 1",
	)
}

func TestParseAccepted(t *testing.T) {
	accepted := parseAccepted(`# A comment.

f.go: < becomes <=
	if x < y {
	both give x,
	because x is y
`)
	if got := accepted[change{"f.go", "< becomes <=", "if x < y {"}]; len(accepted) != 1 || got != "both give x, because x is y" {
		t.Errorf("accepted %q", accepted)
	}
	// Every entry of the tree can be read.
	parseAccepted(acceptedSource)
}
