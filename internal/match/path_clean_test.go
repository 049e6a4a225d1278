package match

import (
	"slices"
	"strings"
	"testing"
)

func TestCleanPath(t *testing.T) {
	tests := []struct{ name, path, want string }{
		{"an empty path is the root", "", "/"},
		{"the root stays the root", "/", "/"},
		{"a clean path stays as it is", "/api/users/42", "/api/users/42"},
		{"a missing slash is put in front", "api", "/api"},
		{"empty segments are dropped", "//api///users//", "/api/users"},
		{"a trailing slash is dropped", "/api/", "/api"},
		{"single dots are dropped", "/./api/./users/.", "/api/users"},
		{"double dots remove the segment before", "/api/v1/../users", "/api/users"},
		{"double dots at the end remove it too", "/api/v1/..", "/api"},
		{"double dots never climb above the root", "/../../api/../../..", "/"},
		{"three dots are a name", "/api/.../x", "/api/.../x"},
		{"a hidden file is a name", "/.git/..config", "/.git/..config"},
		{"an escaped letter is decoded", "/%61pi", "/api"},
		{"hexadecimal digits may have either case", "/%2e%2E/%4a%4A", "/JJ"},
		{"an escaped slash separates segments", "/api%2Fadmin%2f", "/api/admin"},
		{"escaped dots climb", "/api/%2e%2e/admin", "/admin"},
		{"escaped slashes and dots climb together", "/api/x%2f..%2f../admin", "/admin"},
		{"half-escaped dots climb", "/api/.%2E/admin", "/admin"},
		{"decoding happens once", "/a%252Fb", "/a%2Fb"},
		{"malformed escapes stay", "/a%/b%2/c%zz/%", "/a%/b%2/c%zz/%"},
		{"a malformed escape does not hide a good one", "/%%2Fx", "/%/x"},
		{"a question mark ends the path", "/a/b?/../c", "/a/b"},
		{"an escaped question mark does not", "/a%3Fb", "/a?b"},
		{"case is kept", "/API", "/API"},
		{"bytes that are not text are kept", "/%ff%00x", "/\xff\x00x"},
		{"an escaped backslash is no separator", `/a%5C..%5Cb`, `/a\..\b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(CleanPath(nil, tt.path)); got != tt.want {
				t.Errorf("CleanPath(%q) = %q, want %q", tt.path, got, tt.want)
			}
			if got := string(CleanPath([]byte("kept/../"), tt.path)); got != "kept/../"+tt.want {
				t.Errorf("CleanPath does not append: %q", got)
			}
			if got, want := IsClean(tt.path), tt.path == tt.want; got != want {
				t.Errorf("IsClean(%q) = %v, want %v", tt.path, got, want)
			}
			if got := Readings(tt.path)[0]; got != tt.want {
				t.Errorf("the first of Readings(%q) is %q, want %q", tt.path, got, tt.want)
			}
		})
	}
}

func TestCleanPath_Cost(t *testing.T) {
	const deep = 100_000
	path := strings.Repeat("/a", deep) + strings.Repeat("/..", deep) + "/b"
	if got := string(CleanPath(nil, path)); got != "/b" {
		t.Errorf("got a path of %d bytes", len(got))
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "/a/b", "//a/./b/../c/", "/..", "/a/..", "/%2e%2e/x", "/a%2fb", "/a%252fb", "/%", "/%2", "/%zz%41",
		"/%%2F", "/...", "/.a/a.", "a", "?", "/a?b#c", "/\x00\xff", "/a/%2E./b", "/a//", "/./", "/%25%32%46", "..", "/.%2fa",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean := string(CleanPath(nil, path))
		if want := refClean(path); clean != want {
			t.Fatalf("CleanPath(%q) = %q, want %q", path, clean, want)
		}
		if got, want := IsClean(path), clean == path && !Refused(path); got != want {
			t.Fatalf("IsClean(%q) = %v, but it cleans to %q", path, got, clean)
		}
		if clean[0] != '/' {
			t.Fatalf("%q does not begin with a slash", clean)
		}
		if clean == "/" {
			return
		}
		for s := range strings.SplitSeq(clean[1:], "/") {
			if slices.Contains([]string{"", ".", ".."}, s) {
				t.Fatalf("%q has the segment %q", clean, s)
			}
		}
		if !strings.ContainsAny(clean, `%?#\`) && !IsClean(clean) {
			t.Fatalf("%q is not clean", clean)
		}
	})
}
