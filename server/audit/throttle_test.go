package audit_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/server/audit"
)

// Of the attempts of unauthenticated callers a hundred in a minute are recorded. The first
// record after the minute, of any caller, is preceded by the number of the others.
func TestThrottle_Counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "audit.log")
		log, _ := open(t, file)
		attempt := audit.Record{Who: audit.Unauthenticated, From: "192.0.2.7", Operation: "put-rule-set", Outcome: audit.Refused, Status: 401}
		for range 2 {
			for range 125 {
				write(t, log, attempt)
			}
			time.Sleep(29 * time.Second)
		}
		write(t, log, change(1)) // within the minute it is recorded, and nothing else
		if found := lines(t, file); len(found) != 101 || found[99].Who != audit.Unauthenticated || found[100].Operation != "put-rule-set" {
			t.Errorf("within the minute %d records, the last is %+v", len(found), found[len(found)-1])
		}
		time.Sleep(2 * time.Second)
		write(t, log, change(2))
		for range 100 {
			write(t, log, attempt)
		}
		found := lines(t, file)
		if len(found) != 203 || found[102].Before != 2 {
			t.Fatalf("%d records", len(found))
		}
		if more := found[101]; more.Who != audit.Unauthenticated || more.Operation != "audit-more" || more.Outcome != audit.Refused ||
			more.Seq != 102 || !strings.HasPrefix(more.Detail, "150 more attempts were not recorded in the minute from 2000-01-01T00:00:00Z") {
			t.Errorf("%+v", more)
		}
		// A minute without further ones adds no record.
		time.Sleep(time.Minute)
		write(t, log, change(3))
		if found := lines(t, file); len(found) != 204 {
			t.Errorf("%d records", len(found))
		}
	})
}

// Only attempts of unauthenticated callers are counted.
func TestThrottle_OthersNotCounted(t *testing.T) {
	log, said := open(t, "")
	for range 150 {
		write(t, log, audit.Record{Who: "token:ci", From: "192.0.2.7", Outcome: audit.Refused})
		// A change is always recorded.
		write(t, log, audit.Record{Who: audit.Unauthenticated, From: "192.0.2.7", Outcome: audit.Changed})
	}
	if got := strings.Count(said.String(), "msg=audit "); got != 300 {
		t.Errorf("%d records", got)
	}
}
