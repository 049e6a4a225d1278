package mongorules

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// javaDocument is the document of the specification, as other programs write it.
func javaDocument(id string) bson.D {
	return bson.D{
		{Key: "_id", Value: id}, {Key: "ruleSetId", Value: setID}, {Key: "path", Value: "/api/users/*"}, {Key: "method", Value: "GET"},
		{Key: "limitScope", Value: "PER_IP"}, {Key: "compositeKeyFields", Value: nil},
		{Key: "bands", Value: bson.A{
			bson.D{{Key: "label", Value: "per-second"}, {Key: "capacity", Value: int32(100)}, {Key: "refillTokens", Value: 100.0}, {Key: "refillSeconds", Value: int64(1)}},
			bson.D{{Key: "label", Value: "per-minute"}, {Key: "capacity", Value: 1000}, {Key: "windowSeconds", Value: 60.0}, {Key: "note", Value: "why"}},
		}},
		{Key: "priority", Value: 10.0}, {Key: "enabled", Value: true}, {Key: "onLimitExceed", Value: "REJECT"},
		{Key: "attributes", Value: bson.D{{Key: "tenant", Value: "enterprise"}, {Key: "seats", Value: 5.0}, {Key: "since", Value: time.Unix(1e9, 0)}}},
		{Key: "createdAt", Value: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Key: "_class", Value: "org.rules.Rule"}, {Key: "owner", Value: bson.NewObjectID()},
	}
}

func (f *fixture) insert(docs ...any) {
	f.Helper()
	_, err := f.current().docs.InsertMany(f.Context(), docs)
	must(f.T, err)
}

func (f *fixture) reconcileNow() {
	f.Helper()
	must(f.T, reconcile(f.Context(), f))
}

// reconcileUndone calls Reconcile, which writes over documents of another program and says so. The next
// call has nothing to say.
func (f *fixture) reconcileUndone(want string) {
	f.Helper()
	before := f.headNow()
	err := reconcile(f.Context(), f)
	if err == nil || !strings.Contains(err.Error(), want) {
		f.Errorf("Reconcile: %v, want %q", err, want)
	}
	if h := f.headNow(); h.Revision != before.Revision || !strings.Contains(h.Problem, want) {
		f.Errorf("revision %d has become %d; other servers say %q", before.Revision, h.Revision, h.Problem)
	}
	f.reconcileNow()
	if h := f.headNow(); h.Problem != "" {
		f.Errorf("afterwards other servers say %q", h.Problem)
	}
}

// Documents that exist before the first revision become revision 1.
func TestDocuments_NoRevision(t *testing.T) {
	for name, notice := range map[string]func(*fixture){
		"when they are loaded":      func(f *fixture) { f.load() },
		"when a gateway reconciles": (*fixture).reconcileNow,
		"when others are put":       func(f *fixture) { f.wantConflict(newSet(f, setID, rule("x", 1)), 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			f.insert(javaDocument("rule-1"), javaDocument("rule-2"))
			notice(f)
			v := f.load()
			if v.Revision != 1 || v.Author != external || v.RuleSet.Len() != 2 {
				t.Fatalf("revision %d by %q with %d rules", v.Revision, v.Author, v.RuleSet.Len())
			}
			for r := range v.RuleSet.Rules() {
				if r.Scope != rules.ScopeIP || r.Bands[1].Refill != time.Minute || r.Bands[0].Capacity != 100 || r.Priority != 10 {
					t.Errorf("it was read as %+v", r)
				}
			}
			f.consistent()
			f.reconcileNow() // and again: nothing has changed
			if f.headNow().Revision != 1 {
				t.Errorf("it became revision %d, by %s", f.headNow().Revision, f.authors())
			}
			// Unknown fields and the spelling of known ones are kept.
			doc := f.document("rule-1")
			if doc["_class"] != "org.rules.Rule" || doc["limitScope"] != "PER_IP" || doc["owner"] == nil || doc["priority"] != 10.0 {
				t.Errorf("the document has become %v", doc)
			}
		})
	}
}

func (f *fixture) wantConflict(set *rules.Set, base, current int64) {
	f.Helper()
	_, err := f.Put(f.Context(), set, by(base))
	var conflict *rules.ConflictError
	if !errors.As(err, &conflict) || conflict.Current != current {
		f.Fatalf("Put based on revision %d: %v, want a conflict with revision %d", base, err, current)
	}
}

// Edits of documents become revisions. The cost tables, which documents do not have,
// stay.
func TestEdit_Imported(t *testing.T) {
	remove := func(f *fixture, id string) {
		_, err := f.current().docs.DeleteOne(f.Context(), bson.D{{Key: "_id", Value: id}})
		must(f.T, err)
	}
	byHand := func(id string, capacity any) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "ruleSetId", Value: setID}, {Key: "bands", Value: bson.A{
			bson.D{{Key: "capacity", Value: capacity}, {Key: "refillSeconds", Value: 1}},
		}}}
	}
	for name, tc := range map[string]struct {
		edit          func(f *fixture)
		want, comment string
	}{
		"a number as an int32":  {func(f *fixture) { f.shell("a", set("bands.0.capacity", int32(50))) }, "a=50 b=1 c=1", "documents edited a"},
		"a number as an int64":  {func(f *fixture) { f.shell("a", set("bands.0.capacity", int64(50))) }, "a=50 b=1 c=1", "documents edited a"},
		"a number as a double":  {func(f *fixture) { f.shell("a", set("bands.0.capacity", 50.0)) }, "a=50 b=1 c=1", "documents edited a"},
		"a document is added":   {func(f *fixture) { f.insert(byHand("d", 7.0)) }, "a=1 b=1 c=1 d=7", "documents edited d"},
		"a document is removed": {func(f *fixture) { remove(f, "b") }, "a=1 c=1", "documents removed b"},
		"all at once": {func(f *fixture) {
			f.shell("a", set("bands.0.capacity", 3))
			f.insert(byHand("d", 4), byHand("e", 5))
			remove(f, "c")
		}, "a=3 b=1 d=4 e=5", "documents edited a, d, e; removed c"},
		"all are replaced by others": {func(f *fixture) {
			_, err := f.current().docs.DeleteMany(f.Context(), bson.D{})
			must(f.T, err)
			f.insert(byHand("z", 9))
		}, "z=9", "documents edited z; removed a, b, c"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			tables := rules.CostTables{"usd": {"*": {Input: 5, Output: 7}}}
			priced, err := newSet(t, setID, threeRules()...).WithCostTables(tables)
			must(t, err)
			_, err = f.Put(t.Context(), priced, by(0))
			must(t, err)
			tc.edit(f)
			f.reconcileNow()
			v := f.load()
			if got := v.RuleSet.CostTables(); !reflect.DeepEqual(got, tables) {
				t.Errorf("the cost tables are %v, want %v", got, tables)
			}
			if got := capacities(v.RuleSet); got != tc.want || v.Revision != 2 || v.Author != external || v.Comment != tc.comment {
				t.Errorf("revision %d by %s because %q: %s", v.Revision, v.Author, v.Comment, got)
			}
			f.consistent()
			f.reconcileNow()
			if f.headNow().Revision != 2 {
				t.Errorf("a second call made revision %d: %s", f.headNow().Revision, f.authors())
			}
			// A writer who has not seen the edit does not overwrite it.
			f.wantConflict(newSet(t, setID, rule("a", 9)), 1, 2)
		})
	}
}

// The measure of a rule is a field of its document.
func TestEdit_Cost(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(rule("a", 1))
	f.shell("a", set("cost", "usd"))
	f.reconcileNow()
	edited, _ := f.load().RuleSet.Rule("a")
	if edited.Cost != "usd" {
		t.Errorf("the rule counts %q", edited.Cost)
	}
	edited.Cost = rules.MeasureTokens
	f.put(edited)
	if doc := f.document("a"); doc["cost"] != "tokens" {
		t.Errorf("the document is %v", doc)
	}
	f.put(rule("a", 1))
	if _, has := f.document("a")["cost"]; has {
		t.Error("the document still has a cost")
	}
	f.consistent()
}

// A Put imports a pending edit and is then a conflict.
func TestEdit_ImportedByPut(t *testing.T) {
	f := newFixture(t, Config{}) // reconciles once a minute
	f.put(threeRules()...)
	f.shell("b", set("enabled", false))
	f.wantConflict(newSet(t, setID, rule("a", 9)), 1, 2)
	_, err := f.Delete(t.Context(), setID, by(1))
	if !errors.As(err, new(*rules.ConflictError)) {
		t.Errorf("Delete: %v, want a conflict", err)
	}
	if got := f.authors(); got != "external ann" {
		t.Errorf("the authors are %s", got)
	}
}

// Unknown fields survive every change.
func TestUnknownFields_Kept(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	first := rule("a", 1)
	first.When.Hosts = []string{"a.example.com"}
	f.put(first, rule("b", 1))
	f.shell("a", bson.D{{Key: "$set", Value: bson.D{
		{Key: "owner", Value: "team"}, {Key: "bands.0.note", Value: "why"}, {Key: "when.ticket", Value: 7},
		{Key: "tags", Value: bson.D{{Key: "x", Value: bson.A{1, "two"}}}},
	}}})
	f.reconcileNow()
	if f.headNow().Revision != 1 {
		t.Errorf("unknown fields made revision %d", f.headNow().Revision)
	}
	check := func(what string) {
		t.Helper()
		doc := f.document("a")
		band := doc["bands"].(bson.A)[0].(bson.D)
		when := doc["when"].(bson.D)
		if doc["owner"] != "team" || doc["tags"] == nil || band[len(band)-1].Value != "why" || when[len(when)-1].Key != "ticket" {
			t.Errorf("%s: the document is %v", what, doc)
		}
		f.consistent()
	}
	second := rule("a", 2)
	second.When.Hosts = []string{"b.example.com"}
	second.Paths = []string{"/x", "/y"}
	f.put(second)
	check("after a change of all fields")
	if doc := f.document("a"); doc["path"] != nil || len(doc["paths"].(bson.A)) != 2 {
		t.Errorf("the paths are %v and %v", doc["path"], doc["paths"])
	}
	_, err := rulestest.Restore(t.Context(), f, setID, 1, by(2))
	must(t, err)
	check("after a restore")
	if doc := f.document("b"); doc == nil || doc["revision"] != int64(3) {
		t.Errorf("the restored document is %v", doc)
	}
}

// An invalid edit changes nothing and is reported.
func TestEdit_Invalid(t *testing.T) {
	for name, tc := range map[string]struct {
		update bson.D
		want   string
	}{
		"a number below 1":       {set("bands.0.capacity", 0), `document "a": bands[0].capacity: must be at least 1`},
		"a fraction":             {set("bands.0.capacity", 1.5), `document "a": bands[0].capacity: must be a whole number`},
		"a string":               {set("bands.0.capacity", "many"), `document "a": bands[0].capacity: must be a whole number`},
		"an object id":           {set("group", bson.NewObjectID()), `document "a": group: must not be of type ObjectID`},
		"an object id in a list": {set("attributes", bson.D{{Key: "x", Value: bson.A{1, bson.NewObjectID()}}}), `document "a": attributes.x[1]: must not be of type ObjectID`},
		"binary data":            {set("path", bson.Binary{Data: []byte("x")}), `document "a": path: must not be of type Binary`},
		"an unknown scope":       {set("limitScope", "MOON"), `document "a": limitScope: must be one of`},
		"no bands":               {set("bands", bson.A{}), `document "a": bands: must have at least one band`},
		"an invalid id":          {set("id", "a b"), `document "a": id: must be`},
		"an id that is a number": {set("id", 5), `document "a": id: must be a string`},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			f := newFixture(t, Config{Lease: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			f.put(threeRules()...)
			before := text(t, f.load().RuleSet)
			f.shell("a", tc.update)
			f.shell("b", set("priority", 5)) // the good half of it
			err := reconcile(t.Context(), f)
			if !errors.As(err, new(*rules.ValidationError)) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Reconcile: %v", err)
			}
			if text(t, f.load().RuleSet) != before || f.headNow().Revision != 1 {
				t.Errorf("it has changed the rules: %s", f.authors())
			}
			// A server without the lease reports it too.
			var did []string
			other := f.handle(Config{Lease: time.Hour, step: func(doing string) error {
				did = append(did, doing)
				return nil
			}})
			must(t, func() error {
				_, err := f.current().heads.UpdateOne(t.Context(), bson.D{}, set("lease", lease{holderPrefix + "another server", time.Now().Add(time.Hour).UnixMilli()}))
				return err
			}())
			if err := reconcile(t.Context(), other); err == nil || !strings.Contains(err.Error(), tc.want) || len(did) != 2 {
				t.Errorf("Reconcile without the lease: %v, after %q", err, did)
			}
			if err := f.Examine(t.Context(), setID); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Examine: %v", err)
			}
			// The next Put replaces it, and logs that.
			f.put(rule("a", 4), rule("c", 4))
			if got := capacities(f.load().RuleSet); got != "a=4 c=4" {
				t.Errorf("the rules are %s", got)
			}
			f.consistent()
			f.reconcileNow()
			must(t, reconcile(t.Context(), other))
			if !strings.Contains(log.String(), "replaces an invalid edit") || f.authors() != "ann ann" {
				t.Errorf("by %s, and the log says %s", f.authors(), log.String())
			}
		})
	}
}

// A corrected edit is no longer reported.
func TestEdit_Corrected(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	f.shell("a", set("bands.0.capacity", -1))
	if reconcile(t.Context(), f) == nil {
		t.Fatal("an invalid edit is not reported")
	}
	f.shell("a", set("bands.0.capacity", 1))
	f.reconcileNow()
	must(t, reconcile(t.Context(), f.handle(Config{Lease: time.Hour})))
	if f.headNow().Revision != 1 {
		t.Errorf("undoing it made revision %d", f.headNow().Revision)
	}
	f.consistent()
}

// An invalid edit that a Put replaces stays replaced if the writer is killed.
func TestEdit_ReplacedByKilledWriter(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	f.shell("a", set("bands.0.capacity", -1))
	f.insert(bson.D{{Key: "_id", Value: "junk"}, {Key: "ruleSetId", Value: setID}, {Key: "bands", Value: "junk"}})
	w := f.handle(Config{step: func(doing string) error {
		if doing == "writing documents" {
			return errKilled
		}
		return nil
	}})
	_, err := w.Put(t.Context(), newSet(t, setID, rule("a", 4)), by(1))
	must(t, err)
	f.reconcileNow()
	f.consistent()
	if got := capacities(f.load().RuleSet); got != "a=4" || f.authors() != "ann ann" {
		t.Errorf("by %s: %s", f.authors(), got)
	}
}

// A lost collection is written again.
func TestDocuments_LostCollection(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	must(t, f.current().docs.Drop(t.Context()))
	f.reconcileUndone("all documents were missing")
	f.consistent()
	if f.authors() != "ann" {
		t.Errorf("by %s", f.authors())
	}
	must(t, f.current().docs.Drop(t.Context()))
	f.put(rule("a", 2)) // is no conflict
	f.consistent()
}

// The server that holds the lease writes a lost history again as it was, with the cost tables: its
// documents are what they were. A server that starts can load the rules.
func TestHistory_LostUnderLease(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tables := rules.CostTables{"usd": {"*": {Input: 5, Output: 7}}}
	priced, err := newSet(t, setID, threeRules()...).WithCostTables(tables)
	must(t, err)
	_, err = f.Put(t.Context(), priced, by(0))
	must(t, err)
	for range 2 {
		f.reconcileNow()
		f.reconcileNow() // nothing to do
		want, err := f.History(t.Context(), setID, 0, 0)
		must(t, err)
		must(t, f.current().history.Drop(t.Context()))
		f.reconcileNow()
		v, err := f.open(Config{}).Load(t.Context(), setID)
		must(t, err)
		if text(t, v.RuleSet) != text(t, priced) || v.Entry != want[0] || !strings.Contains(log.String(), "lost the current revision") {
			t.Errorf("%+v: %s\nlog: %s", v.Entry, text(t, v.RuleSet), &log)
		}
		f.consistent()
		log.Reset()
	}
}

// A lost history is created again from the documents.
func TestHistory_Lost(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	want := text(t, f.load().RuleSet)
	must(t, f.current().history.Drop(t.Context()))
	f.reconcileNow()
	v := f.load()
	if text(t, v.RuleSet) != want || v.Revision != 2 || v.Author != external || !strings.HasPrefix(v.Comment, "the history has lost revision 1;") {
		t.Errorf("revision %d by %s because %q: %s", v.Revision, v.Author, v.Comment, text(t, v.RuleSet))
	}
}

// After lost heads revisions continue from the history.
func TestHeads_Lost(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	f.put(rule("a", 2))
	must(t, f.current().heads.Drop(t.Context()))
	if v := f.load(); v.Revision != 3 || capacities(v.RuleSet) != "a=2" {
		t.Errorf("revision %d: %s", v.Revision, capacities(v.RuleSet))
	}
	f.consistent()
}

// Documents of a deleted rule set are deleted.
func TestDocuments_DeletedRuleSet(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	kept := f.document("a")
	_, err := f.Delete(t.Context(), setID, by(1))
	must(t, err)
	f.consistent()
	f.insert(kept) // restored from a backup
	f.reconcileUndone("documents of removed rules were inserted again, and are deleted: a;")
	if h := f.headNow(); !h.Deleted || h.Revision != 2 || f.document("a") != nil {
		t.Errorf("a restored document has made revision %d (deleted %t)", h.Revision, h.Deleted)
	}
	f.insert(javaDocument("new")) // written by hand
	f.reconcileNow()
	if v := f.load(); v.Revision != 3 || v.Author != external || v.RuleSet.Len() != 1 {
		t.Errorf("revision %d by %s", v.Revision, v.Author)
	}
	f.consistent()
}

// Values that documents cannot represent survive an edit of another field.
func TestEdit_KeepsExactValues(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	r := rule("a", 1)
	r.CreatedAt = time.Date(2024, 1, 1, 0, 0, 0, 123456789, time.UTC)
	r.Attributes = map[string]any{"a.b": 1, "$set": 2, "": 3, "100%": 4, "%2E": 5, "big": uint64(1 << 63), "exact": 1.50}
	r.When.Attributes = map[string][]string{"user.tier": {"gold"}}
	f.put(r)
	f.consistent()
	f.shell("a", set("priority", 5))
	f.reconcileNow()
	v := f.load()
	r.Priority = 5
	if got, want := text(t, v.RuleSet), text(t, newSet(t, setID, r)); v.Revision != 2 || got != want {
		t.Errorf("revision %d is\n%s\nwant\n%s", v.Revision, got, want)
	}
	f.consistent()
}

// One server at a time reads the documents. When it stops another takes over, at
// once if it released its lease, otherwise when the lease expires.
func TestLease_OneServer(t *testing.T) {
	now := time.Now()
	config := Config{Lease: time.Minute, Now: func() time.Time { return now }}
	f := newFixture(t, config)
	f.put(threeRules()...)
	var looks []int
	var servers []*Source
	for i := range 5 {
		config.step = func(doing string) error {
			if doing == "reading the documents of a rule set" && !slices.Contains(looks, i) {
				looks = append(looks, i)
			}
			return nil
		}
		servers = append(servers, f.handle(config))
	}
	round := func(when, want string, running ...*Source) {
		t.Helper()
		looks = nil
		for _, s := range running {
			must(t, reconcile(t.Context(), s))
		}
		if fmt.Sprint(looks) != want {
			t.Errorf("%s the servers %v read the documents, want %s", when, looks, want)
		}
	}
	round("at first", "[0]", servers...)
	for range 5 {
		now = now.Add(31 * time.Second)
		round("half a minute later", "[0]", servers...)
	}
	now = now.Add(30 * time.Second)
	round("while the lease of one that ended is valid", "[]", servers[1:]...)
	now = now.Add(31 * time.Second)
	round("after it", "[1]", servers[1:]...)
	must(t, servers[1].Close())
	round("when the holder is closed", "[2]", servers[2:]...)
	now = now.Add(-time.Hour)
	round("when the lease ends in an hour", "[2]", servers[2:]...)
	_, err := f.current().heads.UpdateOne(t.Context(), bson.D{}, set("lease", lease{"an older version", now.Add(time.Minute).UnixMilli()}))
	must(t, err)
	round("when a server of an older version has it", "[2]", servers[2:]...)
	f.shell("a", set("priority", 1))
	now = now.Add(31 * time.Second)
	round("when there is an edit", "[2]", servers...)
	if f.authors() != "external ann" {
		t.Errorf("by %s", f.authors())
	}
	f.consistent()
}

// Two documents of one rule are a problem that names both, until one is deleted or
// changed.
func TestTwoDocuments_OneRule(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	clone := f.document("a")
	clone["_id"] = bson.NewObjectID() // like "clone document" of a tool
	f.insert(clone)
	err := reconcile(t.Context(), f)
	if !errors.As(err, new(*rules.ValidationError)) || !strings.Contains(err.Error(), clone["_id"].(bson.ObjectID).Hex()) || !strings.Contains(err.Error(), `is a second document of rule "a"`) {
		t.Fatalf("Reconcile: %v", err)
	}
	if f.headNow().Revision != 1 {
		t.Fatalf("it became revision %d", f.headNow().Revision)
	}
	_, err = f.current().docs.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: clone["_id"]}}, set("id", "copy"))
	must(t, err)
	f.reconcileNow()
	if got := capacities(f.load().RuleSet); got != "a=1 b=1 c=1 copy=1" {
		t.Errorf("with another id the rules are %s", got)
	}
	f.consistent()
	clone["_id"] = "other"
	f.insert(clone)
	f.put(threeRules()...) // replaces the invalid edit, and deletes the second document
	f.consistent()
}

// Two rule sets may have rules with the same id. The first document of a rule id
// has it as its _id, others are prefixed with the rule set, and an _id never changes.
func TestSameRuleID_Documents(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	put := func(id string, base int64, all ...rules.Rule) {
		t.Helper()
		_, err := f.Put(t.Context(), newSet(t, id, all...), by(base))
		must(t, err)
	}
	check := func(when string, want ...string) {
		t.Helper()
		all, err := findAll[bson.M](t.Context(), f.current().docs, bson.D{})
		must(t, err)
		var got []string
		for _, doc := range all {
			got = append(got, fmt.Sprintf("%v:%v/%v", doc["_id"], doc["ruleSetId"], doc["id"]))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the documents are %q, want %q", when, got, want)
		}
		_, err = f.Reconcile(t.Context(), "other")
		must(t, err)
		f.reconcileNow()
		f.consistent()
	}
	put(setID, 0, rule("x", 1))
	check("one rule set", "x:api-limits/x")
	put("other", 0, rule("x", 2))
	check("two", "other/x:other/x", "x:api-limits/x")
	put(setID, 1, rule("y", 1))
	check("the first drops the rule", "other/x:other/x", "y:api-limits/y")
	put("other", 1, rule("x", 3))
	put(setID, 2, rule("x", 1))
	check("and adds it again", "other/x:other/x", "x:api-limits/x")
	f.shell("other/x", set("bands.0.capacity", 9))
	_, err := f.Reconcile(t.Context(), "other")
	must(t, err)
	v, err := f.Load(t.Context(), "other")
	must(t, err)
	if got := capacities(v.RuleSet); got != "x=9" || v.Author != external {
		t.Errorf("an edit under the long _id makes %s by %s", got, v.Author)
	}
	// Another program moves a rule to another rule set.
	f.shell("x", bson.D{{Key: "$set", Value: bson.D{{Key: "ruleSetId", Value: "other"}, {Key: "id", Value: "moved"}}}})
	f.insert(bson.D{{Key: "_id", Value: "z"}, {Key: "ruleSetId", Value: setID}, {Key: "action", Value: "deny"}})
	check("moved by hand", "other/x:other/x", "x:other/moved", "z:api-limits/<nil>")
}

// A document that the server rejects is reported without its content, and blocks no
// change. The test server rejects lists of lists; MongoDB rejects documents that
// violate a schema.
func TestRejectedDocument_Changes(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	r := rule("a", 1)
	r.Attributes = map[string]any{"grid": []any{[]any{"secret"}}}
	f.put(r)
	if f.document("a") != nil {
		t.Skip("this server accepts it")
	}
	err := reconcile(t.Context(), f)
	if fmt.Sprint(err) != `documents of rule set "api-limits": writing documents: MongoDB rejected a document with error 2` {
		t.Errorf("Reconcile: %v", err)
	}
	if got := capacities(f.load().RuleSet); got != "a=1" {
		t.Errorf("the rules are %s", got)
	}
	f.put(rule("a", 2))
	f.consistent()
}

// A second document of a rule whose document has the long _id is a problem too,
// whatever its own _id.
func TestTwoDocuments_LongKey(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	_, err := f.Put(t.Context(), newSet(t, "other", rule("x", 1)), by(0))
	must(t, err)
	f.put(rule("x", 1))
	clone := f.document(longKey(setID, "x"))
	clone["_id"] = "x2" // shorter than the long one
	f.insert(clone)
	f.shell("x2", set("bands.0.capacity", 7))
	err = reconcile(t.Context(), f)
	if !errors.As(err, new(*rules.ValidationError)) || !strings.Contains(err.Error(), `is a second document of rule "x"`) {
		t.Errorf("Reconcile: %v; the rules are %s", err, capacities(f.load().RuleSet))
	}
}

// Documents that are not read because there are too many are not removed rules.
func TestDocuments_TooMany_NoRace(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	const chunk = 2_000
	for i := range 2 * rules.MaxRules / chunk {
		all := make([]bson.D, chunk)
		for j := range all {
			all[j] = bson.D{{Key: "_id", Value: fmt.Sprint("unfinished", i*chunk+j)}, {Key: "ruleSetId", Value: setID}}
		}
		_, err := f.current().docs.InsertMany(t.Context(), all)
		must(t, err)
	}
	if err := reconcile(t.Context(), f); err == nil || !strings.Contains(err.Error(), "more than 20000 documents") {
		t.Errorf("Reconcile: %v", err)
	}
	if got := capacities(f.load().RuleSet); got != "a=1 b=1 c=1" {
		t.Errorf("the rules are %s: %s", got, f.headNow().Comment)
	}
}

// A document that FluxGate has written, of a rule that was removed, cannot be
// distinguished from that of a late writer. Log and health say that it is deleted.
func TestEdit_ReinsertedDocument(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, Config{Lease: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.put(threeRules()...)
	doc := f.document("b")
	_, err := f.current().docs.DeleteOne(t.Context(), bson.M{"_id": "b"})
	must(t, err)
	f.reconcileNow()
	f.insert(doc)
	f.reconcileUndone("documents of removed rules were inserted again, and are deleted: b;")
	if f.document("b") != nil || !strings.Contains(log.String(), "and are deleted: b;") {
		t.Errorf("the document is %v, the log\n%s", f.document("b"), &log)
	}
	delete(doc, revisionField)
	delete(doc, checksumField)
	f.insert(doc)
	f.reconcileNow()
	if got := capacities(f.load().RuleSet); got != "a=1 b=1 c=1" {
		t.Errorf("the rules are %s", got)
	}
}

// Documents of former revisions that a tool puts back are an edit: they become a revision.
func TestEdit_RestoredDocuments(t *testing.T) {
	f := newFixture(t, Config{Lease: 1})
	f.put(threeRules()...)
	backup, err := findAll[bson.Raw](t.Context(), f.current().docs, bson.M{})
	must(t, err)
	f.put(rule("a", 7), rule("b", 1), rule("c", 2), rule("d", 1))
	f.put(rule("a", 8), rule("b", 1), rule("c", 2), rule("d", 1))
	f.reconcileNow()
	_, err = f.current().docs.DeleteMany(t.Context(), bson.M{})
	must(t, err)
	for _, raw := range backup {
		f.insert(raw)
	}
	f.reconcileNow()
	v := f.load()
	if got := capacities(v.RuleSet); got != "a=1 b=1 c=1" || v.Revision != 4 || v.Author != external || v.Comment != "documents edited a, c; removed d" {
		t.Errorf("revision %d by %s because %q: %s", v.Revision, v.Author, v.Comment, got)
	}
	f.consistent()
	f.wantConflict(newSet(t, setID, rule("a", 9)), 3, 4)
}

// A document that is moved to another rule set is a rule of that one, whatever happened there before.
func TestEdit_MovedDocument(t *testing.T) {
	for name, before := range map[string]func(f *fixture){
		"to a new rule set": func(*fixture) {},
		"to one that was deleted": func(f *fixture) {
			_, err := f.Put(f.Context(), newSet(f, "other", rule("x", 1)), by(0))
			must(f.T, err)
			_, err = f.Delete(f.Context(), "other", by(1))
			must(f.T, err)
		},
		"to one that had such a rule": func(f *fixture) {
			_, err := f.Put(f.Context(), newSet(f, "other", rule("a", 5), rule("x", 1)), by(0))
			must(f.T, err)
			_, err = f.Put(f.Context(), newSet(f, "other", rule("x", 1)), by(1))
			must(f.T, err)
		},
		"to one at a later revision": func(f *fixture) {
			for base := range int64(3) {
				_, err := f.Put(f.Context(), newSet(f, "other", rule("x", base+1)), by(base))
				must(f.T, err)
			}
		},
		"to one whose deletion is not complete": func(f *fixture) {
			_, err := f.Put(f.Context(), newSet(f, "other", rule("x", 1)), by(0))
			must(f.T, err)
			w := f.handle(Config{step: func(doing string) error {
				if doing == "writing documents" {
					return errKilled
				}
				return nil
			}})
			_, err = w.Delete(f.Context(), "other", by(1))
			must(f.T, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{Lease: 1})
			f.put(threeRules()...)
			before(f)
			f.shell("a", set("ruleSetId", "other"))
			for range 2 {
				_, err := f.Reconcile(t.Context(), "other")
				must(t, err)
				f.reconcileNow()
			}
			v, err := f.Load(t.Context(), "other")
			must(t, err)
			if moved, ok := v.RuleSet.Rule("a"); !ok || moved.Bands[0].Capacity != 1 || v.Author != external {
				t.Errorf("the other rule set, by %s: %s", v.Author, capacities(v.RuleSet))
			}
			if got := capacities(f.load().RuleSet); got != "b=1 c=1" {
				t.Errorf("the first rule set: %s", got)
			}
			f.consistent()
		})
	}
}

// Documents of a rule set without a revision are found in one read for many ids.
func TestUnimported(t *testing.T) {
	f := newFixture(t, Config{})
	f.put(threeRules()...)
	f.shell("a", set("ruleSetId", "fresh"))
	ids := make([]string, 2_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("invented-%d", i)
	}
	found, err := f.Unimported(t.Context(), append(ids, "fresh", "not an id"))
	if err != nil || len(found) != 1 || found[0] != "fresh" {
		t.Errorf("found %q, %v", found, err)
	}
}
