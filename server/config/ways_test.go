package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// sample is a value of a key that is not its default: as false, and as the
// environment and the command line have it.
func sample(t *testing.T, e *setting) (yaml, text string) {
	t.Helper()
	defaults := Defaults()
	now := e.in(&defaults)
	switch {
	case e.typ == durationType:
		d := time.Duration(now.Int()) + 1*time.Millisecond
		return d.String(), d.String()
	case len(e.oneOf) > 0:
		for _, word := range e.oneOf {
			if word != now.String() {
				return word, word
			}
		}
	case e.inner != nil:
		return "[{name: a, roles: [read, write], rule-sets: [b, c]}]", "[{name: a, roles: [read, write], rule-sets: [b, c]}]"
	}
	switch e.typ.Kind() {
	case reflect.Bool:
		return fmt.Sprint(!now.Bool()), fmt.Sprint(!now.Bool())
	case reflect.Int, reflect.Int64:
		return fmt.Sprint(now.Int() + 1), fmt.Sprint(now.Int() + 1)
	case reflect.Float64:
		return "0.25", "0.25"
	case reflect.String:
		return `"a b: #c,d"`, "a b: #c,d"
	case reflect.Map:
		return `{tier: "X-Tier", "b.c": d}`, `{tier: "X-Tier", "b.c": d}`
	case reflect.Slice:
		return `["a b", "c: d"]`, "a b, c: d"
	}
	t.Fatalf("no sample for %s, of type %s", e.path, e.typ)
	return "", ""
}

// nested is a file with one key.
func nested(path, yaml string) string {
	content, indent := "fluxgate:\n", "  "
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		content += indent + name + ":\n"
		indent += "  "
	}
	return content + indent + names[len(names)-1] + ": " + yaml + "\n"
}

// Every key can be set by the file, the environment and the command line.
func TestKeys_AllSources(t *testing.T) {
	if len(keys()) < 70 {
		t.Fatalf("%d keys: the walk has lost some", len(keys()))
	}
	for _, e := range keys() {
		yaml, text := sample(t, e)
		file := filepath.Join(t.TempDir(), "fluxgate.yaml")
		if err := os.WriteFile(file, []byte(nested(e.path, yaml)), 0o600); err != nil {
			t.Fatal(err)
		}
		want := Defaults()
		var first any
		for name, from := range map[string]Sources{
			fmt.Sprintf("%s:%d", file, strings.Count(e.path, ".")+2): {File: file},
			e.variable():      {Environ: []string{e.variable() + "=" + text}},
			"--set " + e.path: {Set: []string{e.path + "=" + text}},
		} {
			c, err := Load(from)
			if err != nil {
				t.Errorf("%s by %s: %v", e.path, name, err)
				continue
			}
			got := e.in(c)
			if reflect.DeepEqual(got.Interface(), e.in(&want).Interface()) {
				t.Errorf("%s by %s is at its default", e.path, name)
			}
			if first == nil {
				first = got.Interface()
			}
			if !reflect.DeepEqual(got.Interface(), first) {
				t.Errorf("%s by %s is %v, and %v in another way", e.path, name, got, first)
			}
			if origin := c.Origin(e.path); origin != name {
				t.Errorf("%s comes from %q, want %q", e.path, origin, name)
			}
			// And nothing else has changed.
			got.Set(e.in(&want))
			c.from = origin{}
			if !reflect.DeepEqual(*c, want) {
				t.Errorf("%s by %s changes something else", e.path, name)
			}
		}
	}
}

// No two keys have the same variable, or one of another program.
func TestKeys_UniqueVariables(t *testing.T) {
	taken := map[string]string{}
	for _, e := range keys() {
		name := e.variable()
		if taken[name] != "" || others.MatchString(name+"=tcp://x") || others.MatchString(name+"=1") {
			t.Errorf("%s is the variable of %s and of %s, or of others", name, e.path, taken[name])
		}
		taken[name] = e.path
		if e.path != strings.ToLower(e.path) || strings.Contains(e.path, "_") {
			t.Errorf("%s is not in lower case with dashes", e.path)
		}
	}
}

// Every number and time has bounds, and its default is within them.
func TestKeys_Bounds(t *testing.T) {
	c := Defaults()
	for _, e := range keys() {
		v := e.in(&c)
		if !v.CanInt() && !v.CanFloat() {
			continue
		}
		if e.min == "" || e.max == "" || !e.within(v) {
			t.Errorf("%s is %v, in the range %q to %q", e.path, v, e.min, e.max)
		}
	}
	if longest, err := time.ParseDuration(keyOf("wait-for-refill.max-wait-time").max); err != nil || longest != store.MaxWait {
		t.Errorf("requests can wait for %s, and stores for %s (%v)", longest, store.MaxWait, err)
	}
}

// A configuration that was read is printed and read as the same again.
func FuzzLoad(f *testing.F) {
	for _, dir := range []string{"testdata/*.yaml", "testdata/wrong/*.yaml"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) == 0 {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "FLUXGATE_REDIS_PREFIX", "a", "redis.timeout=5s")
		}
	}
	for _, e := range keys() {
		f.Add([]byte("fluxgate: {}"), e.variable(), "x,y", e.path+"=10")
	}
	f.Fuzz(func(t *testing.T, data []byte, name, value, assignment string) {
		c, err := load("f.yaml", data, map[string]string{name: value}, []string{assignment})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a problem")
			}
			return
		}
		_ = c.Check()
		again, err := load("g.yaml", []byte(c.String()), nil, nil)
		if err != nil {
			t.Fatalf("what was accepted is not when it is printed: %v\n%s", err, c)
		}
		c.from, again.from = origin{}, origin{}
		if c.String() != again.String() {
			t.Fatalf("read\n%s\nwant\n%s", again, c)
		}
	})
}
