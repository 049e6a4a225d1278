package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// Another operator changes the rule set through the API while the question is on
// the screen: nothing is overwritten.
func TestRulesApply_Conflict(t *testing.T) {
	settings := inRedis(t)
	address, _ := serveWith(t, settings...)
	for name, at := range map[string]testTarget{"server": {flags: []string{"-s", "http://" + address}}, "direct": direct(t, settings)} {
		t.Run(name, func(t *testing.T) {
			other, id := newOtherOperator(t, address), "limits-"+name
			base := other.sets(t, id, 2, "begin")
			file := write(t, t.TempDir(), "rules.yaml", ruleSet(id, 3))
			apply := append([]string{"rules", "apply", "-f", file}, at.flags...)
			me := &terminal{answer: "y\n", meanwhile: func() { other.sets(t, id, 5, "a feast") }}
			code, out, errs := callWith(t, me, apply...)
			for _, says := range []string{
				id + " was not changed: " + (&rules.ConflictError{RuleSetID: id, Base: 1, Current: 2}).Error() + "\nanonymous made revision 2 at ",
				": a feast\nchanges since revision 1:\n~ " + id + "-rule\n    bands[hourly].capacity: 2 → 5\n",
				"nothing was overwritten: review the difference and apply again\n",
			} {
				if !strings.Contains(errs, says) {
					t.Errorf("it does not say %q:\n%s", says, errs)
				}
			}
			if code != exitError || !strings.Contains(out, "bands[hourly].capacity: 2 → 3") || strings.Contains(out, "was 1") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			if got := other.capacity(t, id); base != 1 || got != 5 {
				t.Errorf("the change of the other operator is lost: the capacity is %d", got)
			}
			code, out, errs = callWith(t, &terminal{answer: "y\n"}, apply...)
			if code != exitOK || !strings.Contains(out, "bands[hourly].capacity: 5 → 3") || !strings.Contains(out, id+": revision 3, was 2") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// restore and delete refuse a rule set that was changed meanwhile.
func TestRulesRestore_Conflict(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	other := newOtherOperator(t, address)
	other.sets(t, "limits", 2, "begin")
	capacity := int64(2)
	again := func() *terminal {
		return &terminal{answer: "y\n", meanwhile: func() { capacity++; other.sets(t, "limits", capacity, "") }}
	}
	capacity++
	other.sets(t, "limits", capacity, "")
	for _, args := range [][]string{{"rules", "restore", "limits", "1"}, {"rules", "delete", "limits"}} {
		code, _, errs := callWith(t, again(), append(args, "-s", "http://"+address)...)
		if code != exitError || !strings.Contains(errs, "was not changed: rule set") || !strings.Contains(errs, "bands[hourly].capacity") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
		if got := other.capacity(t, "limits"); got != capacity {
			t.Errorf("%v: the capacity is %d, not %d", args, got, capacity)
		}
	}
}

// Another operator creates or deletes the rule set meanwhile.
func TestRulesApply_CreatedOrDeletedMeanwhile(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	other := newOtherOperator(t, address)
	file := write(t, t.TempDir(), "rules.yaml", ruleSet("limits", 3))
	apply := []string{"rules", "apply", "-f", file, "-s", "http://" + address}
	code, _, errs := callWith(t, &terminal{answer: "y\n", meanwhile: func() { other.sets(t, "limits", 7, "") }}, apply...)
	if code != exitError || !strings.Contains(errs, "exists already, at revision 1") || !strings.Contains(errs, "+ limits-rule") || other.capacity(t, "limits") != 7 {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	code, _, errs = callWith(t, &terminal{answer: "y\n", meanwhile: func() {
		if _, err := other.Delete(t.Context(), "limits", rules.Change{Base: 1, Author: "colleague"}); err != nil {
			t.Error(err)
		}
	}}, apply...)
	if code != exitError || !strings.Contains(errs, "it does not exist") || !strings.Contains(errs, "- limits-rule") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// Each rule set is applied on its own, and an error says how far apply got.
func TestRulesApply_SeveralRuleSets(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	other, folder := newOtherOperator(t, address), t.TempDir()
	for _, id := range []string{"a", "b", "c", "d"} {
		other.sets(t, id, 2, "")
		capacity := 3
		if id == "d" {
			capacity = 2 // it stays
		}
		write(t, folder, id+".yaml", ruleSet(id, capacity))
	}
	apply := []string{"rules", "apply", "-f", folder, "-s", "http://" + address}
	code, out, errs := callWith(t, &terminal{answer: "y\n", meanwhile: func() { other.sets(t, "b", 9, "") }}, apply...)
	if code != exitError || !strings.Contains(errs, "Apply this to 3 rule sets at http://"+address+"?") || !strings.Contains(errs, "b was not changed") ||
		!strings.HasSuffix(errs, "\napplied before that: a\nnot tried after that: c\n") || !strings.HasSuffix(out, "d: unchanged (revision 1)\na: revision 2, was 1\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for id, want := range map[string]int64{"a": 3, "b": 9, "c": 2, "d": 2} {
		if got := other.capacity(t, id); got != want {
			t.Errorf("the capacity of %s is %d, not %d", id, got, want)
		}
	}
	code, out, errs = call(t, append(apply, "--yes")...)
	if code != exitOK || !strings.HasSuffix(out, "b: revision 3, was 2\nc: revision 2, was 1\n") || !strings.Contains(out, "a: unchanged (revision 2)\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// The author of a direct change is the user, or --author.
func TestRulesApply_Author(t *testing.T) {
	at := direct(t, inRedis(t))
	folder := t.TempDir()
	write(t, folder, "one.yaml", ruleSet("one", 1))
	write(t, folder, "two.yaml", ruleSet("two", 1))
	at.runLines(t, folder, []line{
		{command: "rules apply --yes -f FOLDER/one.yaml", stdout: "one, new: 1 added\n+ one-rule\n    limitScope: \"USER_ID\"\n    bands[hourly]: {\"capacity\":1,\"refill\":\"1h\"}\none: revision 1"},
		{command: "rules apply --yes -f FOLDER/two.yaml --author pipeline", stdout: "two, new: 1 added\n+ two-rule\n    limitScope: \"USER_ID\"\n    bands[hourly]: {\"capacity\":1,\"refill\":\"1h\"}\ntwo: revision 1"},
		{command: "rules list", stdout: "RULE SET REVISION CHANGED BY WHY\none 1 MOMENT WHO -\ntwo 1 MOMENT pipeline -"},
	})
	if !strings.HasPrefix(at.author, "user:") || len(at.author) < 6 {
		t.Errorf("a change is signed %q", at.author)
	}
}

// Rule ids are unique within their rule set: rules can be swapped, and rule sets
// are applied in the order of their ids.
func TestRulesApply_SwapsRules(t *testing.T) {
	set := func(id string, rules ...string) string {
		text := "id: " + id + "\nrules:\n"
		for _, r := range rules {
			text += "  - {id: " + r + ", action: deny}\n"
		}
		return text + "  - {id: stays-in-" + id + ", action: deny}\n"
	}
	for name, at := range testTargets(t) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			apply := func(sets ...string) (code int, out, errs string) {
				for _, text := range sets {
					id, _, _ := strings.Cut(strings.TrimPrefix(text, "id: "), "\n")
					write(t, folder, id+".yaml", text)
				}
				return call(t, append([]string{"rules", "apply", "--yes", "-f", folder}, at.flags...)...)
			}
			if code, _, errs := apply(set("a"), set("b", "one"), set("c", "two"), set("d")); code != exitOK {
				t.Fatal(errs)
			}
			code, out, errs := apply(set("a", "one"), set("b", "two"), set("c"), set("d", "three"))
			if code != exitOK || !strings.HasSuffix(out, "\na: revision 2, was 1\nb: revision 2, was 1\nc: revision 2, was 1\nd: revision 2, was 1\n") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			code, out, errs = apply(set("a", "two"), set("b", "one"))
			if code != exitOK || !strings.HasSuffix(out, "\na: revision 3, was 2\nb: revision 3, was 2\n") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// With --within, a file that a symbolic link names outside of the folder is not read: the
// error shows nothing of it.
func TestRulesApply_Within(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	key := write(t, outside, "tls.key", "SECRET KEY")
	write(t, outside, "rules.yaml", firstRules)
	write(t, inside, "rules.yaml", firstRules)
	for name, target := range map[string]string{"key.yaml": key, "folder": outside, "real.yaml": "rules.yaml"} {
		if err := os.Symlink(target, filepath.Join(inside, name)); err != nil {
			t.Fatal(err)
		}
	}
	repository := filepath.Join(t.TempDir(), "repository") // a link, as git-sync makes it
	if err := os.Symlink(inside, repository); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"": true, "key.yaml": true, "folder": true, "folder/rules.yaml": true, "rules.yaml": false, "real.yaml": false} {
		_, out, errs := call(t, "rules", "apply", "--direct", "--set", "redis.uri=redis://127.0.0.1:1", "--set", "mongo.enabled=false", "--yes", "--within", repository, "-f", filepath.Join(repository, name))
		if got := strings.Contains(errs, "outside of "+repository); got != refused || strings.Contains(out+errs, "SECRET") {
			t.Errorf("%q: refused %t\n%s%s", name, got, out, errs)
		}
	}
}
