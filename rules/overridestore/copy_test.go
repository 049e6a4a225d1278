package overridestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
)

// A file that was cut off anywhere restores a state that was once true, and is written on.
func TestCopy_CutOff(t *testing.T) {
	f := kinds["memory"](t)
	f.putRules(0, rule)
	one := f.server()
	one.put(of("ada", 2_000))
	states := map[string]bool{"": true, one.has(): true}
	for _, o := range []rules.Override{of("bob", 2_000), of("ada", 3_000), of("bob", 0), of("eve", 1_500)} {
		one.put(o)
		states[one.has()] = true
	}
	_ = one.Close()
	text := copyFile(t, one.folder)
	path := filepath.Join(one.folder, set+".overrides.jsonl")
	last := one.has()
	for length := len(text); length > len("fluxgate overrides 1 api\n"); length -= 1 + length%13 {
		f.lose()
		if err := os.WriteFile(path, []byte(text[:length]), 0o600); err != nil {
			t.Fatal(err)
		}
		one.restart()
		now := one.has()
		if !states[now] {
			t.Fatalf("with %d of %d bytes there are %q, which never were", length, len(text), now)
		}
		if length == len(text) && now != last {
			t.Fatalf("the whole copy has %q, want %q", now, last)
		}
		for _, p := range one.Problems() {
			if strings.Contains(p, "damaged") {
				t.Fatalf("with %d of %d bytes: %s", length, len(text), p)
			}
		}
		_ = one.Close()
	}
	f.lose()
	one.restart()
	one.put(of("zoe", 4_000))
	f.lose()
	one.restart()
	one.want("after it was written on", "zoe 4")
}

// A copy that was changed is refused and named, and written again from what is shared.
func TestCopy_Damaged(t *testing.T) {
	f := kinds["memory"](t)
	f.putRules(0, rule)
	one := f.server()
	one.put(of("ada", 2_000), of("bob", 3_000))
	_ = one.Close()
	text := copyFile(t, one.folder)
	path := filepath.Join(one.folder, set+".overrides.jsonl")
	for name, damaged := range map[string]string{
		"other numbers":    strings.Replace(text, `"times":2`, `"times":9`, 1),
		"another rule set": strings.Replace(text, "1 api", "1 other", 1),
		"another format":   strings.Replace(text, "overrides 1", "overrides 2", 1),
		"a line of 2 MiB":  strings.Replace(text, `"ada"`, `"`+strings.Repeat("a", 2<<20)+`"`, 1),
		"no revision":      strings.Replace(text, "= 1", "= 0", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if damaged == text {
				t.Fatal("nothing was changed")
			}
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			one.restart()
			one.want("with what is shared", "ada 2, bob 3")
			one.wantProblem("damaged")
			if copyFile(t, one.folder) == damaged {
				t.Error("the copy was not written again")
			}
			_ = one.Close()
		})
	}
}

// A copy that cannot be written is named, and follows when it can be.
func TestCopy_Unwritable(t *testing.T) {
	f := kinds["memory"](t)
	f.putRules(0, rule)
	one := f.server()
	one.put(of("ada", 2_000))
	if err := os.RemoveAll(one.folder); err != nil {
		t.Fatal(err)
	}
	one.put(of("bob", 2_000))
	one.wantProblem("not up to date")
	if err := os.Mkdir(one.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	one.sync()
	one.wantProblem("")
	one.put(of("eve", 2_000))
	f.lose()
	one.sync()
	one.want("after a loss", "ada 2, bob 2, eve 2")
}

// A server that starts while Redis does not answer reads its copy, and then what is shared.
func TestStore_StartWithoutRedis(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	client := dial(t, server)
	f := kinds["memory"](t)
	f.putRules(0, rule)
	f.shared = inRedis(t, client, "fluxgate")
	one, two := f.server(), f.server()
	one.put(of("ada", 2_000), of("bob", 3_000))
	two.sync()
	_ = two.Close()
	one.put(of("bob", 0))
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	slow := &impatient{f.shared}
	two.shared = slow
	two.open()
	two.want("without Redis", "ada 2, bob 3")
	if _, err := two.PutOverrides(t.Context(), set, []rules.Override{of("eve", 2_000)}); err == nil {
		t.Error("a change was made without Redis")
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "Redis answers", func() bool { return two.Sync(t.Context()) == nil })
	two.want("with Redis", "ada 2")
}

// impatient is shared overrides whose state is not waited for.
type impatient struct{ rules.SharedOverrides }

func (i *impatient) OverrideState(ctx context.Context, waiting rules.WaitingRules) (rules.OverrideState, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	state, err := i.SharedOverrides.OverrideState(ctx, waiting)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer")
	}
	return state, err
}

func (i *impatient) PutSharedOverrides(
	ctx context.Context, record, next rules.OverrideRecord, id string, changes []rules.Override,
) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return i.SharedOverrides.PutSharedOverrides(ctx, record, next, id, changes)
}

// Without Redis a process has its overrides again after a restart, and no problem.
func TestStore_Alone(t *testing.T) {
	f := kinds["memory"](t)
	f.putRules(0, rule)
	f.shared = nil
	one := f.server()
	one.put(of("ada", 2_000), of("bob", 3_000), of("bob", 0))
	for range 3 {
		one.restart()
		one.want("after a restart", "ada 2")
		one.wantProblem("")
	}
	if strings.Contains(one.logged.String(), "lost") {
		t.Errorf("the log is %s", one.logged)
	}
}

// A copy is not restored beside the buckets of another fleet, which are older than the copy. One that
// lost its buckets too is restored.
func TestStore_OtherSalt(t *testing.T) {
	client := dial(t, testenv.StartStandalone(t, testenv.Config{}))
	f := kinds["memory"](t)
	f.putRules(0, rule)
	fleetOf := func(prefix, salt string, since time.Time) *redisrules.Overrides {
		t.Helper()
		if err := client.HSet(t.Context(), prefix+":fleet", "salt", salt, "since", since.UnixMicro()).Err(); err != nil {
			t.Fatal(err)
		}
		return inRedis(t, client, prefix)
	}
	now := time.Now()
	f.shared = fleetOf("ours", "01", now.Add(-time.Hour))
	one := f.server()
	one.put(of("ada", 2_000))
	_ = one.Close()

	one.shared = fleetOf("older", "02", now.Add(-time.Minute))
	one.open()
	one.want("in a fleet that is older than the copy", "")
	one.wantProblem("another fleet")
	_ = one.Close()

	one.shared = fleetOf("same", "01", now.Add(time.Hour))
	one.open()
	one.want("with the salt that a server restored", "ada 2")
	_ = one.Close()

	one.shared = fleetOf("new", "03", now.Add(time.Hour))
	one.open()
	one.want("with buckets that are newer than the copy", "ada 2")
}
