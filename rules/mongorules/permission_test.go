package mongorules

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// readOnly denies writes, as MongoDB does to a user with the role read.
func readOnly(doing string) error {
	for _, read := range []string{"reading", "looking", "listing"} {
		if strings.HasPrefix(doing, read) {
			return nil
		}
	}
	return mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized"}
}

// An edit that no server has the permission to import is reported. While another
// server holds the lease, it is left to that one.
func TestReconcile_ReadOnly(t *testing.T) {
	now := time.Now()
	config := Config{Lease: time.Minute, Now: func() time.Time { return now }}
	f := newFixture(t, config)
	config.step = readOnly
	reader := f.handle(config)
	reported := func(when string, want bool) {
		t.Helper()
		err := reconcile(t.Context(), reader)
		if got := err != nil; got != want || got && !strings.Contains(err.Error(), "no server has the permission") {
			t.Errorf("%s: %v, want an error: %t", when, err, want)
		}
	}
	f.insert(bson.M{"_id": "a", "ruleSetId": setID, "bands": bson.A{bson.M{"capacity": 1, "refillSeconds": 1}}})
	reported("documents without a revision", true)
	f.reconcileNow()
	reported("imported documents", false)
	f.reconcileNow() // takes the lease
	f.shell("a", set("priority", 5))
	reported("an edit, while another server has the lease", false)
	now = now.Add(time.Hour)
	reported("an edit, when that server has stopped", true)
	if v := f.load(); v.Revision != 1 {
		t.Errorf("the reader imported revision %d", v.Revision)
	}
	f.reconcileNow()
	now = now.Add(time.Hour)
	reported("an imported edit", false)
	_, err := f.current().heads.UpdateOne(t.Context(), bson.M{"_id": setID}, set("synced", 1))
	must(t, err)
	reported("documents that another writer has not finished", false)
	f.shell("a", set("priority", "high"))
	if err := reconcile(t.Context(), f); err == nil {
		t.Error("an invalid edit was imported")
	}
	now = now.Add(time.Hour)
	if err := reconcile(t.Context(), reader); err == nil || !strings.Contains(err.Error(), "priority") {
		t.Errorf("an invalid edit that is recorded: %v", err)
	}
}

// Creating the indexes is tried and reported once if it is not permitted.
func TestIndexes_Forbidden(t *testing.T) {
	f, attempts := newFixture(t, Config{}), 0
	var log bytes.Buffer
	s := f.sameCollections()
	s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s.config.step = func(doing string) error {
		if strings.Contains(doing, "index") {
			attempts++
		}
		return readOnly(doing)
	}
	s.makeIndexes(t.Context())
	must(t, reconcile(t.Context(), s))
	if n := strings.Count(log.String(), "cannot create the indexes"); attempts != 6 || n != 1 {
		t.Errorf("%d attempts, %d lines:\n%s", attempts, n, &log)
	}
	log.Reset()
	s.config.step = func(string) error { return errors.New("no reply") }
	s.indexed.Store(false)
	s.makeIndexes(t.Context())
	if !strings.Contains(log.String(), "cannot create the indexes") || s.indexed.Load() {
		t.Errorf("unreachable: %s", &log)
	}
}
