package match_test

import (
	"math/rand/v2"
	"testing"

	"github.com/fluxgate/fluxgate/internal/match"
)

func TestReaches(t *testing.T) {
	for _, c := range []struct {
		paths, include, exclude []string
		want                    bool
	}{
		{nil, nil, nil, true},
		{[]string{"/api/users/*"}, []string{"/api/*"}, nil, false},
		{[]string{"/api/users/*"}, []string{"/api/**"}, nil, true},
		{[]string{"/api/users/**"}, []string{"/api/*"}, nil, true}, // /api/users
		{[]string{"/**"}, []string{"/api/*"}, nil, true},
		{[]string{"/api/orders"}, nil, []string{"/api/**"}, false},
		{[]string{"/api/orders/**"}, nil, []string{"/api/orders", "/api/orders/*"}, true},
		{[]string{"/api/orders/*"}, nil, []string{"/*/orders/*"}, false},
		{[]string{"/*"}, nil, []string{"/a", "/b"}, true},
		{[]string{"/**"}, nil, []string{"/", "/*", "/*/**"}, false},
	} {
		if got := match.Reaches(c.paths, c.include, c.exclude); got != c.want {
			t.Errorf("paths %q, include %q, exclude %q: %t", c.paths, c.include, c.exclude, got)
		}
	}
}

// Reaches agrees with all paths of at most 6 segments, which are enough for patterns of at
// most 3 with three names.
func TestReaches_Random(t *testing.T) {
	var all []string
	for paths := []string{""}; len(paths[0]) <= 6*2; {
		all = append(all, paths...)
		var longer []string
		for _, p := range paths {
			for _, s := range []string{"/a", "/b", "/z"} {
				longer = append(longer, p+s)
			}
		}
		paths = longer
	}
	random := rand.New(rand.NewPCG(1, 2))
	patterns := func(least int) (some []string) {
		for range least + random.IntN(3) {
			p := ""
			for range 1 + random.IntN(3) {
				p += []string{"/a", "/b", "/*", "/**"}[random.IntN(4)]
			}
			some = append(some, p)
		}
		return some
	}
	outcomes := map[bool]int{}
	for range 300 {
		paths, include, exclude := patterns(1), patterns(1), patterns(0)
		p, i, e := compile(t, paths), compile(t, include), compile(t, exclude)
		want := false
		for _, path := range all {
			if path == "" {
				path = "/"
			}
			want = want || p.MatchAny(path) && i.MatchAny(path) && !e.MatchAll(path)
		}
		if got := match.Reaches(paths, include, exclude); got != want {
			t.Errorf("paths %q, include %q, exclude %q: %t, want %t", paths, include, exclude, got, want)
		}
		outcomes[want]++
	}
	if outcomes[true] < 30 || outcomes[false] < 30 {
		t.Errorf("the cases are one-sided: %v", outcomes)
	}
}

func compile(t *testing.T, patterns []string) *match.Paths {
	t.Helper()
	p, err := match.CompilePaths(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
