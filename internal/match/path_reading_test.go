package match

import (
	"slices"
	"strings"
	"testing"
)

func TestReadings(t *testing.T) {
	tests := []struct {
		name, path string
		want       []string
	}{
		{"an ordinary path has one", "/api/users/42", []string{"/api/users/42"}},
		{"so does the root", "/", []string{"/"}},
		{"so does a path without slash", "api", []string{"/api"}},
		{"so does one with the escapes it needs", "/caf%C3%A9/a%20b", []string{"/café/a b"}},
		{"a query is not part of the path", "/a?b=/../c", []string{"/a"}},
		{"a trailing slash may be a segment", "/a/", []string{"/a", "/a/"}},
		{"an empty segment may be one", "/a//b", []string{"/a/b", "/a//b"}},
		{"an escaped slash may be part of a name", "/p/a%2Fb", []string{"/p/a/b", "/p/a%2Fb"}},
		{"an escape that nobody needs may be compared as sent", "/%68ealthz", []string{"/healthz", "/%68ealthz"}},
		{"so may one in lower case", "/caf%c3%a9", []string{"/café", "/caf%c3%a9"}},
		{"and all escapes, where a byte should have been escaped", `/a"b%20c`, []string{`/a"b c`, `/a"b%20c`}},
		{"dot segments may be names", "/api/../healthz", []string{"/healthz", "/api/../healthz"}},
		{"a dot segment at the end leaves a slash", "/api/x/..", []string{"/api", "/api/", "/api/x/.."}},
		{"escaped dots are dots, names or as sent", "/api/%2e%2e/healthz", []string{"/healthz", "/api/../healthz", "/api/%2e%2e/healthz"}},
		{"escaped slash and dots", "/api/..%2fhealthz", []string{"/healthz", "/api/../healthz", "/api/..%2fhealthz"}},
		{"what follows two slashes may be an authority", "//evil/limited/a", []string{"/evil/limited/a", "//evil/limited/a", "/limited/a"}},
		{"also if it is all there is", "//evil", []string{"/evil", "//evil", "/"}},
		{"what climbs over an empty segment", "/a//../b", []string{"/b", "/a/b", "/a/../b", "/a//../b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Readings(tt.path); !slices.Equal(got, tt.want) {
				t.Errorf("Readings(%q)\n got %q\nwant %q", tt.path, got, tt.want)
			}
		})
	}
}

func TestAmbiguous(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/a/b": false, "/a/": false, "/caf%C3%A9": false, "/%68ealthz": false, "/a?x=/../b#c": false, "": false, "/a%23": false,
		"/a//b": true, "//": true, "/a%2Fb": true, "/a%2fb": true, "/a/./b": true, "/..": true, "/a/%2E%2e": true, "/a#": true, `/a\b`: true, "/a%5Cb": false, "/a%2F": true,
	} {
		if got := Ambiguous(path); got != want {
			t.Errorf("Ambiguous(%q) = %v", path, got)
		}
	}
}

// A segment with an escape that is not decoded equals no literal, also not one that is
// spelled alike.
func TestReadings_UndecodedEscapeEqualsNoLiteral(t *testing.T) {
	paths, err := CompilePaths([]string{"/p/a%252Fb"})
	if err != nil {
		t.Fatal(err)
	}
	if paths.MatchAny("/p/a%2Fb") {
		t.Error("/p/a%2Fb is read as the name a%2Fb")
	}
	for _, pattern := range []string{"/a%00b", "/a\x00b"} {
		if err := CheckPattern(pattern); err == nil {
			t.Errorf("the pattern %q is accepted", pattern)
		}
	}
}

func TestPaths_AnyAndAllReadings(t *testing.T) {
	paths, err := CompilePaths([]string{"/healthz", "/static/**"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path     string
		any, all bool
	}{
		{"/healthz", true, true},
		{"/healthz/", true, false},
		{"/static/", true, true},
		{"/static/a%2Fb//c", true, true},
		{"/static/../healthz", true, true},
		{"/static/../x", true, false},
		{"/api/..%2fhealthz", true, false},
		{"/%68ealthz", true, false},
		{"/api#/../healthz", true, false},
		{`/static/\..\healthz`, true, false},
		{"/api/x/", false, false},
	} {
		if got := paths.MatchAny(tt.path); got != tt.any {
			t.Errorf("MatchAny(%q) = %v", tt.path, got)
		}
		if got := paths.MatchAll(tt.path); got != tt.all {
			t.Errorf("MatchAll(%q) = %v", tt.path, got)
		}
	}
}

// What applies in any reading applies, and what must hold in every reading is reported separately.
func TestMatch_Readings(t *testing.T) {
	const (
		allowHealth = iota
		generous
		strict
		search
		shadow
	)
	m := mustCompile(t, []testRule{
		allowHealth: {Paths: []string{"/healthz"}, Final: true},
		generous:    {Paths: []string{"/api/export"}, Group: "plan"},
		strict:      {Paths: []string{"/api/**"}, Group: "plan"},
		search:      {Paths: []string{"/search/*"}},
		shadow:      {Paths: []string{"/shadow/**"}, Shadow: true},
	})
	for _, tt := range []struct {
		path            string
		rules           []int32
		enforced, final bool
	}{
		{"/healthz", []int32{allowHealth}, true, true},
		{"/api/%2e%2e/healthz", []int32{allowHealth, strict}, true, false},
		{"/x/../healthz", []int32{allowHealth}, false, false},
		{"/healthz/../healthz", []int32{allowHealth}, false, false},
		{"/api/export", []int32{generous}, true, false},
		{"/api/x/../export", []int32{generous, strict}, true, false},
		{"/search/a%2Fb", []int32{search}, false, false},
		{"/search/", []int32{search}, false, false},
		{"/shadow/./x", []int32{shadow}, false, false},
		{"/other", nil, false, false},
	} {
		got := m.Match(&Request{Path: tt.path}, nil)
		if !slices.Equal(got.Rules, tt.rules) || got.Enforced != tt.enforced || got.Final != tt.final {
			t.Errorf("%s: %+v, want %v, %v, %v", tt.path, got, tt.rules, tt.enforced, tt.final)
		}
	}
}

func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"", "/", "//", "/a/", "/a//../b", "/a%2F..%2Fb/%2e/", "/%68#", `/"%20`, "/..", "/./", "%2Fa", "/%2F", "/a?b/..", "/%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		var want []string
		for _, segments := range refReadings(path) {
			want = append(want, "/"+strings.Join(segments, "/"))
		}
		var got []string
		readings := readingsOf(nil, path)
		for i := range readings.count {
			got = append(got, readings.at(i))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the readings of %q\n got %q\nwant %q", path, got, want)
		}
		if len(got) > maxReadings {
			t.Fatalf("%q has %d readings", path, len(got))
		}
	})
}
