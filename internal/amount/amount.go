// Package amount reads and writes numbers of what rules count, as people do: money such as
// "500 USD", and tokens such as 12.4k. A measure that is named like a currency of ISO 4217,
// such as usd, is money. Everything else in FluxGate has money as an integer of millionths.
package amount

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// The currencies of ISO 4217, by the number of their decimals.
const (
	twoDecimals = " AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY " +
		"COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES " +
		"KGS KHR KPW KYD KZT " +
		"LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR " +
		"RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS " +
		"VED VES WST XCD XCG YER ZAR ZMW ZWG "
	noDecimals    = " BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF "
	threeDecimals = " BHD IQD JOD KWD LYD OMR TND "
)

var symbols = map[string]string{"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}

// places is how many decimals a millionth has, and micros how many millionths one has.
const places, micros = 6, 1_000_000

// currency returns the code of a currency and the number of its decimals.
func currency(measure string) (code string, decimals int, ok bool) {
	code = strings.ToUpper(measure)
	if len(code) != len("USD") {
		return code, 0, false
	}
	switch name := " " + code + " "; {
	case strings.Contains(twoDecimals, name):
		return code, 2, true
	case strings.Contains(threeDecimals, name):
		return code, 3, true
	default:
		return code, 0, strings.Contains(noDecimals, name)
	}
}

// IsMoney reports whether a measure is money.
func IsMoney(measure string) bool {
	_, _, ok := currency(measure)
	return ok
}

// Parse reads an amount of money such as "12.40 USD", in millionths. It also returns the code
// of its currency. Errors say what the text must be.
func Parse(text string) (n int64, code string, err error) {
	number, unit, _ := strings.Cut(text, " ")
	whole, part, dot := strings.Cut(number, ".")
	code, decimals, known := currency(unit)
	switch {
	case !isDigits(whole) || dot && !isDigits(part) || unit == "":
		return 0, "", fmt.Errorf("must be a whole number, or money such as 500 USD or 12.40 USD, not %s", printable.Quote(text))
	case !known:
		return 0, "", fmt.Errorf("must be in a currency of ISO 4217 such as USD, not in %s", printable.Quote(unit))
	case len(part) > decimals:
		return 0, "", fmt.Errorf("must have at most %d decimals in %s, not %s", decimals, code, printable.Quote(text))
	}
	units, err := strconv.ParseUint(whole+part+strings.Repeat("0", places-len(part)), 10, 63)
	if err != nil {
		return 0, "", fmt.Errorf("must be at most %d %s", math.MaxInt64/micros, code)
	}
	return int64(units), code, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Check returns an error for an amount in another currency than what a rule counts. The code may
// be empty.
func Check(code, measure string) error {
	if code == "" || strings.EqualFold(code, measure) {
		return nil
	}
	return fmt.Errorf("is in %s, but the rule counts %s: set its cost to %s, or write a whole number",
		code, printable.Quote(measure), strings.ToLower(code))
}

// Written returns a number of a measure as [Parse] reads it. It is empty if the measure is not
// money, or if its currency has too few decimals.
func Written(n int64, measure string) string {
	code, decimals, ok := currency(measure)
	unit := power(places - decimals)
	if !ok || n < 0 || n%unit != 0 {
		return ""
	}
	if n%micros == 0 {
		decimals, unit = 0, micros // 500 USD, not 500.00 USD
	}
	return decimal(n/unit, decimals, decimals, "") + " " + code
}

// Floor writes a number of a measure for people, rounded down: "$12.40" of usd, "12.4k" of
// tokens, and the number itself of other measures. It has the decimals of the currency, and at
// least three digits. What is left is rounded down and costs are rounded up, so that an amount
// that is too small looks too small.
func Floor(n int64, measure string) string { return text(n, measure, false) }

// Ceil is [Floor], rounded up.
func Ceil(n int64, measure string) string { return text(n, measure, true) }

func text(n int64, measure string, up bool) string {
	digits := len(strconv.FormatInt(n, 10))
	code, decimals, money := currency(measure)
	switch {
	case money && n >= 0:
		shown := decimals
		if digits <= places {
			shown = min(places, max(decimals, places+3-digits))
		}
		return cmp.Or(symbols[code], code+" ") + decimal(divide(n, power(places-shown), up), shown, decimals, ",")
	case measure == "tokens" && digits > 4:
		exponent := digits - 3
		n = divide(n, power(exponent), up)
		if n == 1_000 {
			n, exponent = 100, exponent+1
		}
		thousands := (exponent + 2) / 3
		return decimal(n, 3*thousands-exponent, 0, "") + "kMBTPE"[thousands-1:thousands]
	}
	return strconv.FormatInt(n, 10)
}

func divide(n, by int64, up bool) int64 {
	if up && n%by != 0 {
		return n/by + 1
	}
	return n / by
}

func power(exponent int) int64 {
	n := int64(1)
	for range exponent {
		n *= 10
	}
	return n
}

// decimal writes n/10^places without zeros at the end, but with the fewest decimals. The
// separator is between thousands.
func decimal(n int64, places, fewest int, separator string) string {
	whole, part := strconv.FormatInt(n/power(places), 10), strconv.FormatInt(power(places)+n%power(places), 10)[1:]
	for len(part) > fewest && strings.HasSuffix(part, "0") {
		part = part[:len(part)-1]
	}
	for i := len(whole) - 3; i > 0 && separator != ""; i -= 3 {
		whole = whole[:i] + separator + whole[i:]
	}
	return strings.TrimSuffix(whole+"."+part, ".")
}
