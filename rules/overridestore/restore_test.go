package overridestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// The suite of overrides passes.
func TestStore_Conformance_NoRace(t *testing.T) {
	const most = "a rule set has at most MaxOverrides" // takes seconds; the stores below have it
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			one, other := f.server(), f.server()
			for _, check := range rulestest.OverrideChecks() {
				if check.Name != most {
					t.Run(check.Name, func(t *testing.T) {
						check.Run(t, rulestest.Subject{
							Overrides: one, OpenOverrides: func(testing.TB) rules.OverrideEditor { return other }, Writers: 10, Changes: 60,
							Stored: func(t testing.TB) string { return allFiles(t, one.folder) },
						})
					})
				}
			}
		})
	}
}

func allFiles(t testing.TB, folder string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		text, failed := os.ReadFile(filepath.Join(folder, e.Name()))
		if err = failed; err != nil {
			break
		}
		all.Write(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// checks are what a store promises with any place.
var checks = map[string]func(f *fleet){
	"what was lost comes back, and the highest revision wins": restored,
	"a change after a loss keeps what was lost":               changedAfterLoss,
	"a server that starts again restores":                     restarted,
	"an old copy restores nothing that was deleted":           oldCopy,
}

func TestStore_Checks(t *testing.T) {
	for name, open := range kinds {
		for what, check := range checks {
			t.Run(name+", "+what, func(t *testing.T) {
				f := open(t)
				f.putRules(0, rule)
				check(f)
			})
		}
	}
}

// What was lost comes back with deletions, from the copies of all servers, in any order: the highest
// revision wins.
func restored(f *fleet) {
	one, two, three := f.server(), f.server(), f.server()
	one.put(of("ada", 2_000), of("bob", 2_000), of("eve", 2_000))
	two.sync()
	three.sync()
	one.put(of("ada", 3_000), of("bob", 0))
	two.sync()
	two.put(of("max", 4_000), of("eve", 5_000))
	const want = "ada 3, eve 5, max 4"
	two.want("before", want)
	two.wantProblem("")
	for _, order := range [][]*server{{one, two, three}, {three, two, one}, {two, three, one}, {three, one, two}} {
		f.lose()
		for _, s := range order {
			s.sync()
		}
		for _, s := range order {
			s.want("after a loss", want)
		}
		two.wantProblem("were lost")
	}
	// They do not come back to what they were.
	f.lose()
	three.sync()
	three.put(of("ada", 6_000), of("zoe", 1_000), of("max", 0))
	two.sync()
	one.sync()
	one.want("after changes", "ada 6, eve 5, zoe 1")
}

// A change that meets lost data is made after the copy is merged.
func changedAfterLoss(f *fleet) {
	one, two := f.server(), f.server()
	one.put(of("ada", 2_000), of("bob", 2_000))
	two.sync()
	f.lose()
	two.put(of("bob", 3_000))
	two.want("after a change", "ada 2, bob 3")
	one.sync()
	one.want("after the other server has seen it", "ada 2, bob 3")
	f.lose()
	one.put(of("ada", 0))
	two.sync()
	two.want("after a deletion", "bob 3")
}

// A server that starts again restores what was lost while no server ran.
func restarted(f *fleet) {
	one, two := f.server(), f.server()
	one.put(of("ada", 2_000), of("bob", 2_000))
	two.sync()
	two.put(of("ada", 0), of("eve", 7_000))
	_, _ = one.Close(), two.Close()
	f.lose()
	one.restart()
	one.want("at the start of the first", "ada 2, bob 2")
	two.restart()
	one.want("at the start of the second", "bob 2, eve 7")
}

// A server that was away restores nothing that was deleted meanwhile, however much was.
func oldCopy(f *fleet) {
	old, one := f.server(), f.server()
	old.put(of("ada", 2_000), of("bob", 2_000))
	one.sync()
	_ = old.Close()
	one.put(of("ada", 0))
	for round := range 3 { // the source forgets that ada was deleted, and the copy is written again
		for _, times := range []rules.Times{2_000, 0} {
			var many []rules.Override
			for i := range rules.MaxPage {
				many = append(many, of(fmt.Sprint(round, "-", i), times))
			}
			if _, err := one.PutOverrides(f.Context(), set, many); err != nil {
				f.Fatal(err)
			}
		}
	}
	one.put(of("eve", 3_000))
	if text := copyFile(f, one.folder); strings.Contains(text, `"ada"`) || !strings.Contains(text, `"bob"`) {
		f.Fatal("the copy still has the deletion of ada")
	}
	f.lose()
	old.restart()
	old.want("after the loss, before the other server", "ada 2, bob 2")
	one.sync()
	one.want("after the loss", "bob 2, eve 3")
}

// The copy of another fleet is not restored, stays as it is, and health names it.
func TestStore_OtherFleet(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			theirs, ours := open(t), open(t)
			theirs.putRules(0, rule)
			ours.putRules(0, rule)
			stray := theirs.server()
			stray.put(of("ada", 2_000))
			ours.server().put(of("bob", 3_000))
			_ = stray.Close()
			before := allFiles(t, stray.folder)

			stray.shared = ours.shared
			stray.open()
			stray.want("in the other fleet", "bob 3")
			stray.wantProblem("another fleet")
			stray.put(of("bob", 4_000))
			stray.sync()
			if allFiles(t, stray.folder) != before {
				t.Error("the copy of the other fleet was changed")
			}
			ours.lose()
			stray.sync()
			stray.want("after a loss", "")
			_ = stray.Close()
			stray.shared = theirs.shared
			stray.open()
			stray.want("back in its fleet", "ada 2")
			stray.wantProblem("")
		})
	}
}
