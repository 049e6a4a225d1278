package amount_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/amount"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		n    int64
		code string
	}{
		"500 USD":               {500_000_000, "USD"},
		"12.40 USD":             {12_400_000, "USD"},
		"12.4 eur":              {12_400_000, "EUR"},
		"0.01 USD":              {10_000, "USD"},
		"0 USD":                 {0, "USD"},
		"007 GBP":               {7_000_000, "GBP"},
		"1500 JPY":              {1_500_000_000, "JPY"},
		"1.234 KWD":             {1_234_000, "KWD"},
		"9223372036854.77 USD":  {9_223_372_036_854_770_000, "USD"},
		"9223372036854.775 BHD": {9_223_372_036_854_775_000, "BHD"},
	} {
		if n, code, err := amount.Parse(text); n != want.n || code != want.code || err != nil {
			t.Errorf("%s: %d %s, %v; want %d %s", text, n, code, err, want.n, want.code)
		}
	}
}

func TestParse_Errors(t *testing.T) {
	const form = "must be a whole number, or money such as 500 USD or 12.40 USD, not "
	for text, want := range map[string]string{
		"":                               form + `""`,
		"500":                            form + `"500"`,
		"500USD":                         form + `"500USD"`,
		"$500":                           form + `"$500"`,
		"USD 500":                        form + `"USD 500"`,
		"-5 USD":                         form + `"-5 USD"`,
		"+5 USD":                         form + `"+5 USD"`,
		"1,000 USD":                      form + `"1,000 USD"`,
		"1e3 USD":                        form + `"1e3 USD"`,
		"5. USD":                         form + `"5. USD"`,
		".5 USD":                         form + `".5 USD"`,
		"1.2.3 USD":                      form + `"1.2.3 USD"`,
		"٣ USD":                          form + `"٣ USD"`,
		"500 ":                           form + `"500 "`,
		"500  USD":                       `must be in a currency of ISO 4217 such as USD, not in " USD"`,
		"10M tokens":                     form + `"10M tokens"`,
		"10 tokens":                      `must be in a currency of ISO 4217 such as USD, not in "tokens"`,
		"10 XXX":                         `must be in a currency of ISO 4217 such as USD, not in "XXX"`,
		"5 D U":                          `must be in a currency of ISO 4217 such as USD, not in "D U"`,
		"5 USD each":                     `must be in a currency of ISO 4217 such as USD, not in "USD each"`,
		"12.345 USD":                     `must have at most 2 decimals in USD, not "12.345 USD"`,
		"12.5 JPY":                       `must have at most 0 decimals in JPY, not "12.5 JPY"`,
		"1.2345 KWD":                     `must have at most 3 decimals in KWD, not "1.2345 KWD"`,
		"9223372036854.78 USD":           "must be at most 9223372036854 USD",
		"9223372036855 JPY":              "must be at most 9223372036854 JPY",
		strings.Repeat("9", 99) + " USD": "must be at most 9223372036854 USD",
	} {
		if n, code, err := amount.Parse(text); err == nil || err.Error() != want || n != 0 || code != "" {
			t.Errorf("%q: %d %s, %v; want %s", text, n, code, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, fits := range [][2]string{{"", "requests"}, {"USD", "usd"}, {"EUR", "EUR"}} {
		if err := amount.Check(fits[0], fits[1]); err != nil {
			t.Error(err)
		}
	}
	const want = `is in EUR, but the rule counts "usd": set its cost to eur, or write a whole number`
	if err := amount.Check("EUR", "usd"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// What people read: money with the decimals of its currency, and small costs with three digits.
func TestFloorCeil(t *testing.T) {
	for _, test := range []struct {
		n           int64
		measure     string
		floor, ceil string
	}{
		{12_400_000, "usd", "$12.40", "$12.40"},
		{500_000_000, "USD", "$500.00", "$500.00"},
		{1_234_567_890_000, "usd", "$1,234,567.89", "$1,234,567.89"},
		{100_000_000_000, "eur", "€100,000.00", "€100,000.00"},
		{499_999_900, "usd", "$499.99", "$500.00"},
		{1_000_000, "usd", "$1.00", "$1.00"},
		{999_999, "usd", "$0.999", "$1.00"},
		{115_000, "usd", "$0.115", "$0.115"},
		{42_345, "usd", "$0.0423", "$0.0424"},
		{10_000, "usd", "$0.01", "$0.01"},
		{115, "usd", "$0.000115", "$0.000115"},
		{1, "gbp", "£0.000001", "£0.000001"},
		{0, "usd", "$0.00", "$0.00"},
		{1_500_500_000, "jpy", "¥1,500", "¥1,501"},
		{500_000, "jpy", "¥0.5", "¥0.5"},
		{0, "jpy", "¥0", "¥0"},
		{1_234_500, "kwd", "KWD 1.234", "KWD 1.235"},
		{math.MaxInt64, "usd", "$9,223,372,036,854.77", "$9,223,372,036,854.78"},
		{-5, "usd", "-5", "-5"},
		{0, "tokens", "0", "0"},
		{9_999, "tokens", "9999", "9999"},
		{12_400, "tokens", "12.4k", "12.4k"},
		{15_990, "tokens", "15.9k", "16k"},
		{200_000, "tokens", "200k", "200k"},
		{999_999, "tokens", "999k", "1M"},
		{1_234_567, "tokens", "1.23M", "1.24M"},
		{20_000_000_000, "tokens", "20B", "20B"},
		{math.MaxInt64, "tokens", "9.22E", "9.23E"},
		{12_400, "requests", "12400", "12400"},
		{12_400, "images", "12400", "12400"},
	} {
		if floor, ceil := amount.Floor(test.n, test.measure), amount.Ceil(test.n, test.measure); floor != test.floor || ceil != test.ceil {
			t.Errorf("%d %s: %s and %s, want %s and %s", test.n, test.measure, floor, ceil, test.floor, test.ceil)
		}
	}
}

func TestWritten(t *testing.T) {
	for _, test := range []struct {
		n       int64
		measure string
		want    string
	}{
		{500_000_000, "usd", "500 USD"},
		{12_400_000, "usd", "12.40 USD"},
		{10_000, "eur", "0.01 EUR"},
		{1_500_000_000, "jpy", "1500 JPY"},
		{1_234_000, "kwd", "1.234 KWD"},
		{1, "usd", ""},
		{500_000, "jpy", ""},
		{-1_000_000, "usd", ""},
		{500_000_000, "tokens", ""},
	} {
		if got := amount.Written(test.n, test.measure); got != test.want {
			t.Errorf("%d %s: %q, want %q", test.n, test.measure, got, test.want)
		}
	}
}

// An amount that can be read is an integer that is written as the same amount.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"500 USD", "12.40 usd", "0.001 KWD", "1500 JPY", "9223372036854.77 USD", "12.345 USD", "-1 USD", "5 tokens", ". USD", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, code, err := amount.Parse(text)
		if err != nil {
			if n != 0 || code != "" || len(err.Error()) > 2_000 {
				t.Fatalf("%q: %d %s and %v", text, n, code, err)
			}
			return
		}
		written := amount.Written(n, code)
		again, same, err := amount.Parse(written)
		if again != n || same != code || err != nil || n < 0 {
			t.Fatalf("%q is %d %s, which is written as %q: %d %s, %v", text, n, code, written, again, same, err)
		}
	})
}
