package fluxgate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// SHA-256 as sha256sum prints it: of foobar, of schlüssel, and of the former in
// capitals.
const (
	digestOfFoobar     = "sha256:c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"
	digestOfSchluessel = "sha256:ccec7a8e3e039f0b6b308a81f438e1d07a59c8c896b4f237d10c3eecb8375ef7"
	digestOfBare       = "sha256:8f0e4fe03036ec0905688ca648c6a5548383cbd499ebe9b65dd28078114cd862"
)

func keysRule(keys ...string) rules.Rule {
	return rules.Rule{ID: "r", Action: rules.ActionDeny, When: rules.When{APIKeys: keys}}
}

// A rule set keeps only digests of API keys.
func TestAPIKeys_DigestsOnly(t *testing.T) {
	bare := strings.ToUpper(digestOfFoobar[7:]) // without a prefix it is a key like any other
	given := []string{"foobar", "sha256:" + bare, "schlüssel", digestOfFoobar, bare}
	mine := slices.Clone(given)
	set := ruleSet(t, keysRule(given...))
	if !slices.Equal(given, mine) {
		t.Errorf("the caller's keys became %q", given)
	}
	want := []string{digestOfFoobar, digestOfFoobar, digestOfSchluessel, digestOfFoobar, digestOfBare}
	if got := rulesOf(set)[0].When.APIKeys; !slices.Equal(got, want) {
		t.Errorf("they are kept as %q, want %q", got, want)
	}
	document, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"foobar", "schlüssel", bare} {
		if strings.Contains(string(document), key) || strings.Contains(fmt.Sprintf("%+v", rulesOf(set)), key) {
			t.Errorf("the rule set shows the key %s: %s", key, document)
		}
	}
	again, err := rules.Parse(document)
	if err != nil || !reflect.DeepEqual(rulesOf(again), rulesOf(set)) {
		t.Errorf("read again it is\n%+v\nnot\n%+v (%v)", rulesOf(again), rulesOf(set), err)
	}
}

// An API key matches whether the rule has the key or its digest.
func TestAPIKeys_KeyOrDigest(t *testing.T) {
	for name, given := range map[string]string{
		"as it is":               "foobar",
		"as a digest":            digestOfFoobar,
		"as a digest in capital": "sha256:" + strings.ToUpper(digestOfFoobar[7:]),
	} {
		g := newGate(t, []rules.Rule{keysRule("another", given)})
		for key, allowed := range map[string]bool{"foobar": false, "another": false, "Foobar": true, digestOfFoobar: true, given[:3]: true} {
			if got := g.check(fluxgate.Request{Path: "/", APIKey: key}).Allowed; got != allowed {
				t.Errorf("a key given %s: a request with %s passes: %t", name, key, got)
			}
		}
	}
}

// Errors about invalid API keys do not show them.
func TestAPIKeys_InvalidNotShown(t *testing.T) {
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprintf("hidden-%d", i)
	}
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"an empty one":           {[]string{"hidden", ""}, "rules[0].when.apiKeys[1]: must have 1 to 1024 bytes of UTF-8"},
		"one that is too long":   {[]string{strings.Repeat("hidden", 171)}, "rules[0].when.apiKeys[0]: must have 1 to 1024 bytes of UTF-8"},
		"one that is not UTF-8":  {[]string{"hidden\xff"}, "rules[0].when.apiKeys[0]: must have 1 to 1024 bytes of UTF-8"},
		"a digest of other text": {[]string{"hidden", "sha256:hidden"}, "rules[0].when.apiKeys[1]: must have 64 hexadecimal digits after sha256:"},
		"a digest of nothing":    {[]string{"sha256:"}, "rules[0].when.apiKeys[0]: must have 64 hexadecimal digits after sha256:"},
		"a digest cut short":     {[]string{digestOfFoobar[:70]}, "rules[0].when.apiKeys[0]: must have 64 hexadecimal digits after sha256:"},
		"too many":               {many, "rules[0].when.apiKeys: must have at most 10000 entries, not 10001"},
	} {
		_, err := rules.NewSet("api", keysRule(c.keys...))
		var invalid *rules.ValidationError
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s alone", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), digestOfFoobar[7:30])) {
			t.Errorf("%s is shown: %v", name, err)
		}
	}
}
