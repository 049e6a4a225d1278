package audit_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/server/audit"
)

// knock lets a stranger try something so many times.
func knock(t *testing.T, log *audit.Log, from string, times int) {
	t.Helper()
	for range times {
		r := audit.Record{Who: audit.Unauthenticated, From: from, Operation: "put-rule-set", Outcome: audit.Refused, Status: 401}
		if err := log.Write(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// summary returns the records in short, with the numbers of counted ones.
func summary(records []audit.Record) string {
	var all []string
	last, times := "", 0
	for _, r := range append(records, audit.Record{}) {
		name := fmt.Sprint(r.Who, "@", r.From)
		if times > 0 && name != last {
			all = append(all, fmt.Sprintf("%d×%s", times, last))
			times = 0
		}
		if last = name; r.Operation == "audit-more" {
			all = append(all, r.From+": "+r.Detail)
		} else {
			times++
		}
	}
	return strings.Join(all, "\n")
}

// Attempts of unauthenticated callers beyond the bound are counted.
func TestAnonymousThrottle_Counts(t *testing.T) {
	for name, end := range map[string]func(*audit.Log) error{
		"summary by the next record of anybody": nil,
		"summary by a reload":                   (*audit.Log).Reload,
		"summary when the log is closed":        (*audit.Log).Close,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "audit.log")
				log := open(t, audit.Config{File: file})
				knock(t, log, "192.0.2.7", 30)
				time.Sleep(20 * time.Second)
				knock(t, log, "192.0.2.7", 30)
				knock(t, log, "192.0.2.8", 10)
				knock(t, log, "192.0.2.9", 11)
				time.Sleep(39 * time.Second)
				want := "10×unauthenticated@192.0.2.7\n10×unauthenticated@192.0.2.8\n10×unauthenticated@192.0.2.9"
				if got := summary(lines(t, file)); got != want {
					t.Errorf("within the minute\n%s", got)
				}
				more := "\n192.0.2.7: 50 more from 192.0.2.7 between 2000-01-01T00:00:00Z and 2000-01-01T00:00:20Z." +
					"\n192.0.2.9: 1 more from 192.0.2.9 between 2000-01-01T00:00:20Z and 2000-01-01T00:00:20Z."
				if end == nil {
					// Records within the minute change nothing.
					if err := log.Write(t.Context(), change(1)); err != nil {
						t.Fatal(err)
					}
					want += "\n1×token:ci@192.0.2.1"
					time.Sleep(time.Second)
					knock(t, log, "192.0.2.8", 12)
					more += "\n10×unauthenticated@192.0.2.8"
				} else if err := end(log); err != nil {
					t.Fatal(err)
				}
				found := lines(t, file)
				if got := summary(found); got != want+more {
					t.Errorf("after the minute\n%s\nwant\n%s", got, want+more)
				}
				for i, r := range found {
					if r.Seq != uint64(i+1) || r.Operation == "audit-more" && (r.Who != audit.Unauthenticated || r.Outcome != audit.Refused || r.Time.IsZero()) {
						t.Errorf("record %d is %+v", i, r)
					}
				}
				if n := len(log.Recent(0, 0, nil)); n != len(found) {
					t.Errorf("%d are in memory and %d in the file", n, len(found))
				}
			})
		})
	}
}

// Beyond a hundred addresses the attempts of all others are counted together.
func TestAnonymousThrottle_ManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := open(t, audit.Config{Keep: 5_000, MaxAnonymous: 3})
		for n := range 1_000 {
			knock(t, log, fmt.Sprintf("2001:db8::%x", n), 5)
		}
		// The first hundred, and all the others together.
		if n := len(log.Recent(0, 0, nil)); n != 101*3 {
			t.Errorf("%d records", n)
		}
		time.Sleep(time.Minute)
		knock(t, log, "192.0.2.7", 1)
		all := log.Recent(0, 0, nil)
		if n := len(all); n != 101*3+101+1 {
			t.Errorf("a minute later %d records", n)
		}
		if rest := all[1]; rest.From != "" || !strings.HasPrefix(rest.Detail, "4497 more from other addresses between ") {
			t.Errorf("the others are in %+v", rest)
		}
		// The next minute begins anew.
		for n := range 200 {
			knock(t, log, fmt.Sprintf("2001:db8::%x", n), 5)
		}
		if n := len(log.Recent(0, 0, nil)) - len(all); n != 100*3 { // 99 beside 192.0.2.7, and the others
			t.Errorf("the next minute has %d records", n)
		}
	})
}

// Only attempts of unauthenticated callers are counted.
func TestAnonymousThrottle_OthersNotCounted(t *testing.T) {
	log := open(t, audit.Config{})
	for n := range 50 {
		if err := log.Write(t.Context(), audit.Record{Who: "token:ci", From: "192.0.2.7", Outcome: audit.Refused}); err != nil {
			t.Fatal(err)
		}
		// A change is always recorded.
		if err := log.Write(t.Context(), audit.Record{Who: audit.Unauthenticated, From: "192.0.2.7", Outcome: audit.Changed}); err != nil {
			t.Fatal(err)
		}
		if got := len(log.Recent(0, 0, nil)); got != 2*n+2 {
			t.Fatalf("%d records after %d", got, 2*n+2)
		}
	}
}
