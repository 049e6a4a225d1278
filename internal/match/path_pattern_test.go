package match

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPattern_Match(t *testing.T) {
	tests := []struct {
		name, pattern string
		matches       []string
		others        []string
	}{
		{"a literal pattern matches its path", "/api/users",
			[]string{"/api/users", "/api/users/", "//api/./users", "/api/x/../users", "/%61pi%2Fusers"},
			[]string{"/", "/api", "/api/users/1", "/API/users", "/api/user"}},
		{"the root matches the root alone", "/", []string{"/", "", "/a/.."}, []string{"/a"}},
		{"a star is exactly one segment", "/api/*",
			[]string{"/api/x", "/api/*", "/api/x/", "/api/"}, []string{"/api", "/api/x/y"}},
		{"a star in the middle", "/a/*/c", []string{"/a/b/c"}, []string{"/a/c", "/a/b/b/c"}},
		{"two stars at the end are any number of segments", "/api/**",
			[]string{"/api", "/api/", "/api/x", "/api/x/y/z"}, []string{"/", "/apis", "/x/api"}},
		{"two stars alone match every path", "/**", []string{"/", "", "/a", "/a/b/c"}, nil},
		{"two stars in front", "/**/export",
			[]string{"/export", "/a/export", "/a/b/export", "/export/export"}, []string{"/", "/export/a", "/exports"}},
		{"two stars in the middle", "/a/**/z",
			[]string{"/a/z", "/a/b/z", "/a/z/z", "/a/z/b/z"}, []string{"/a", "/z", "/a/z/b"}},
		{"two stars several times", "/**/a/**/b/**",
			[]string{"/a/b", "/x/a/y/b/z", "/a/a/b/b", "/b/a/b"}, []string{"/b/a", "/a", "/x/a/y"}},
		{"a star after two stars wants at least one segment", "/a/**/*", []string{"/a/b", "/a/b/c"}, []string{"/a"}},
		{"doubled stars say no more", "/a/**/**/b", []string{"/a/b", "/a/x/b"}, []string{"/a"}},
		{"patterns are cleaned as paths are", "//a/./b/", []string{"/a/b"}, []string{"/a"}},
		{"an escape in a pattern is decoded", "/%61/b%2Fc", []string{"/a/b/c"}, []string{"/%2561"}},
		{"an escaped star is the character", "/a/%2A", []string{"/a/*", "/a/%2a"}, []string{"/a/b", "/a"}},
		{"two escaped stars are the characters", "/a/%2A%2a", []string{"/a/**"}, []string{"/a", "/a/b"}},
		{"escaped reserved characters are the characters", "/%3F/%23/%7Ba%7D", []string{"/%3f/%23/%7Ba%7D", "/%3F/%23/{a}"}, []string{"/a"}},
		{"an escaped percent sign is matched as sent", "/a%252Fb", []string{"/a%252Fb"}, []string{"/a%2Fb", "/a/b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			paths, err := CompilePaths([]string{tt.pattern})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range tt.matches {
				if !paths.MatchAny(path) {
					t.Errorf("%q does not match %q", tt.pattern, path)
				}
			}
			for _, path := range tt.others {
				if paths.MatchAny(path) {
					t.Errorf("%q matches %q", tt.pattern, path)
				}
			}
		})
	}
}

func TestCheckPattern_Errors(t *testing.T) {
	tests := []struct{ name, pattern, want string }{
		{"an empty pattern", "", `write "/**"`},
		{"no leading slash", "api/*", `write "/api/*"`},
		{"two stars without slash", "**", `write "/**"`},
		{"a star without slash", "*", `write "/*"`},
		{"an escaped leading slash", "%2Fapi", "does not begin with a slash"},
		{"a star at the end of a name", "/v*", "%2A for the character itself"},
		{"a star in front of a name", "/*.css", "a star must be a whole segment"},
		{"three stars", "/a/***", "a star must be a whole segment"},
		{"a plain and an escaped star", "/*%2A", "a star must be a whole segment"},
		{"climbing", "/a/../b", "write the path that is meant"},
		{"escaped climbing", "/a/%2e%2E/b", "write the path that is meant"},
		{"a query", "/search?q=*", "a query, a fragment and braces are not possible"},
		{"a fragment", "/docs#top", "a query, a fragment and braces are not possible"},
		{"a placeholder", "/users/{id}", "write * for one segment"},
		{"a closing brace", "/a/b}", "%7B and %7D for the characters"},
		{"too many bytes", "/" + strings.Repeat("a", 1024), "at most 1024"},
		{"too many segments of any number", strings.Repeat("/**/a", 5), "at most 4"},
		{"too many segments", strings.Repeat("/a", 65), "at most 64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckPattern(tt.pattern)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("CheckPattern(%.40q) = %v, want %q in it", tt.pattern, err, tt.want)
			}
			if _, err := CompilePaths([]string{"/", tt.pattern}); err == nil {
				t.Error("CompilePaths accepts it")
			}
		})
	}
	for _, pattern := range []string{"/" + strings.Repeat("a", 1023), strings.Repeat("/a", 64), strings.Repeat("/./a", 64)} {
		if err := CheckPattern(pattern); err != nil {
			t.Errorf("a pattern at the bound is refused: %v", err)
		}
	}
}

func TestPaths_Match(t *testing.T) {
	paths, err := CompilePaths([]string{"/health", "/static/**"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/health": true, "/static/a/b": true, "/": false, "/health/x": false} {
		if got := paths.MatchAny(path); got != want {
			t.Errorf("Match(%q) = %v", path, got)
		}
	}
	empty, err := CompilePaths(nil)
	if err != nil {
		t.Fatal(err)
	}
	if empty.MatchAny("/") || (*Paths)(nil).MatchAny("/") || (*Paths)(nil).MatchAll("/") {
		t.Error("a set without patterns matches")
	}
}

// expand writes a path that a pattern matches, every literal byte escaped and
// between for each "**".
func expand(segments []segment, between string) string {
	var b strings.Builder
	for _, s := range segments {
		switch s.kind {
		case oneSegment:
			b.WriteString("/one")
		case anySegments:
			b.WriteString(between)
		case literal:
			b.WriteByte('/')
			for i := range len(s.text) {
				fmt.Fprintf(&b, "%%%02x", s.text[i])
			}
		}
	}
	return b.String()
}

func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{
		"/", "/**", "/a/*/b", "/**/a/**/b/**", "/a//b/", "/%2A/*", "/v*", "/***", "/..", "/a%2f*%2f**", "**", "",
		"/a%252Fb", "/**/**/a", "/**/*/a/**/*/a", "/%", "/a?b", "/a#b", "/{a}", "/%7B%3F", "/%%2F*", "/./.", strings.Repeat("/**/a", 32),
	} {
		for _, path := range []string{"/", "/a/b", "/a/x/b/a/a/b", "/*/**", "//a/%2e%2e/b"} {
			f.Add(pattern, path)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		paths, err := CompilePaths([]string{pattern})
		if (err == nil) != (CheckPattern(pattern) == nil) {
			t.Fatalf("CheckPattern and CompilePaths disagree on %q", pattern)
		}
		if err != nil {
			return
		}
		segments, _ := parsePattern(pattern)
		for _, between := range []string{"", "/x", "/x/y/z"} {
			if own := expand(segments, between); !paths.MatchAny(own) {
				t.Fatalf("%q does not match its own expansion %q", pattern, own)
			}
		}
		if strings.Contains(refDecode(pattern), "\n") || len(path) > 4096 {
			return // the reference marks wildcards with a newline, and is slow
		}
		if want := refSegments(pattern); !slices.Equal(segments, want) {
			t.Fatalf("%q has the segments %v, want %v", pattern, segments, want)
		}
		matched := 0
		readings := refReadings(path)
		for _, segmented := range readings {
			if matchSegments(segments, segmented) {
				matched++
			}
		}
		if Refused(path) {
			return
		}
		if got, want := paths.MatchAny(path), matched > 0; got != want {
			t.Fatalf("%q on any reading of %q: %v, want %v", pattern, path, got, want)
		}
		if got, want := paths.MatchAll(path), matched == len(readings); got != want {
			t.Fatalf("%q on all readings of %q: %v, want %v", pattern, path, got, want)
		}
	})
}
