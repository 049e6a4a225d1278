package filerules_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Problems are shown with their position, as in the golden files.
func TestParse_Problems(t *testing.T) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases: %v", err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				_, err = filerules.Parse(filepath.ToSlash(file), data)
				var problems *filerules.Error
				var invalid *rules.ValidationError
				if !errors.As(err, &problems) || !errors.As(err, &invalid) {
					t.Fatalf("error %v, want an Error that reaches a ValidationError", err)
				}
				golden := file + ".golden"
				if os.Getenv("UPDATE_GOLDEN") != "" {
					if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, readErr := os.ReadFile(golden)
				if readErr != nil || err.Error()+"\n" != string(want) {
					t.Errorf("says\n%s\nwant\n%s (%v)", err, want, readErr)
				}
			})
		}
	}
}

// secrets are the secrets in the files of testdata.
var secrets = []string{"not-hexadecimal", "12345678", "a key", "over two", "inline-key", "commented-out-key", "misplaced-key", "7777777", "the-secret"}

// No error shows a secret.
func TestParse_Secrets(t *testing.T) {
	for _, file := range []string{"testdata/secrets.yaml", "testdata/syntax-after-a-secret.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = filerules.Parse(file, data)
		if err == nil {
			t.Fatalf("%s is accepted", file)
		}
		var invalid *rules.ValidationError
		errors.As(err, &invalid)
		for _, secret := range secrets {
			if strings.Contains(err.Error(), secret) || strings.Contains(invalid.Error(), secret) {
				t.Errorf("%s: the error shows %q:\n%v", file, secret, err)
			}
		}
		// The same holds for truncated files.
		for cut := range data {
			_, err := filerules.Parse(file, data[:cut])
			for _, secret := range secrets {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%s, cut after %d bytes: the error shows %q:\n%v", file, cut, secret, err)
				}
			}
		}
	}
}

// Money with its currency is the same rule set as the integer, in YAML and in JSON. The API takes integers only.
func TestParse_Money(t *testing.T) {
	const text = `{"id": "llm", "rules": [{"id": "budget", "cost": "usd", "bands": [
		{"label": "day", "capacity": CAPACITY, "refillTokens": REFILL, "refill": "1d"}, {"label": "plain", "capacity": 500, "refill": "1d"}]}]}`
	numbers := strings.NewReplacer("CAPACITY", "500000000", "REFILL", "12400000").Replace(text)
	want, err := rules.Parse([]byte(numbers))
	if err != nil {
		t.Fatal(err)
	}
	money := strings.NewReplacer("CAPACITY", `"500 USD"`, "REFILL", `"12.40 USD"`).Replace(text)
	for _, name := range []string{"llm.json", "llm.yaml"} {
		got, err := filerules.Parse(name, []byte(money))
		if err != nil || canonical(t, got[0]) != canonical(t, want) || !slices.Equal(got[0].At(0).Bands, want.At(0).Bands) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const refused = "rules[0].bands[0].capacity: must be a whole number"
	if _, err := rules.Parse([]byte(money)); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("%v, want %s", err, refused)
	}
}
