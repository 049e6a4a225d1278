package period_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
)

// A period is formatted in its largest unit and parsed to the same duration.
func TestFormat_RoundTrip(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 1500 * time.Microsecond: "1500us", 100 * time.Millisecond: "100ms", 30 * time.Second: "30s",
		90 * time.Minute: "90m", time.Hour: "1h", 24 * time.Hour: "1d", 366 * 24 * time.Hour: "366d", 25 * time.Hour: "25h", -time.Minute: "-1m",
	} {
		if got := period.Format(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
		if back, err := period.Parse(want); err != nil || back != d {
			t.Errorf("%q is parsed as %v (%v)", want, back, err)
		}
	}
}

// More days than a duration can represent are an error.
func TestParse_Invalid(t *testing.T) {
	for _, s := range []string{"", "d", "1.5d", "1h2d", "106752d", "-106752d", "213504d", "99999999999999999999d", "soon", "5"} {
		if d, err := period.Parse(s); err == nil {
			t.Errorf("%q is parsed as %v", s, d)
		}
	}
}
