package simulate

import (
	"testing"
	"time"
)

func TestTime_Forms(t *testing.T) {
	want := time.Date(2026, 11, 16, 15, 0, 1, 250_000_000, time.UTC)
	var e entry
	for _, text := range []string{
		"2026-11-16T15:00:01.25Z", "2026-11-17T00:00:01.250+09:00", "2026-11-16 15:00:01,25", "2026-11-16T08:00:01.250000999-0700",
		"1794841201.25", "1794841201250", "1794841201250000", "1794841201250000000",
	} {
		if err := e.setTime(text); err != nil || e.at.UnixMicro() != want.UnixMicro() {
			t.Errorf("%s is %v, %v", text, e.at, err)
		}
	}
	if err := e.setTime("16/Nov/2026:08:00:01 -0700"); err != nil || !e.at.Equal(want.Truncate(time.Second)) {
		t.Errorf("the common form is %v, %v", e.at, err)
	}
	for _, text := range []string{
		"", "-", "now", "-5", "NaN", "Inf", "1e40", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z",
		"2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+9", "2026-01-01T00:00:00Zjunk", "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "9999-01-01T00:00:00Z",
		"31/Feb/2026:00:00:00 +0000", "01/Jan/2026:00:00:00 0000", "01/Jan/2026:00:00:00 +00:0",
	} {
		if err := e.setTime(text); err != errTime { //nolint:errorlint // the value itself
			t.Errorf("%q is %v, %v", text, e.at, err)
		}
	}
}

func FuzzTimes(f *testing.F) {
	f.Add("2026-11-16T15:00:01.25Z")
	f.Add("2024-02-29T23:59:59+13:45")
	f.Add("29/Feb/2000:13:55:36 -0700")
	f.Fuzz(func(t *testing.T, text string) {
		var e entry
		if err := e.setTime(text); err == nil && (e.at.Year() < 1970 || e.at.Year() > 2199) {
			t.Errorf("%q is %v", text, e.at)
		}
	})
}
