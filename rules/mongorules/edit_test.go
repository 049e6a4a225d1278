package mongorules

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// javaDocument is the document of the specification, as others have written it.
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
		{Key: "_class", Value: "org.fluxgate.Rule"}, {Key: "owner", Value: bson.NewObjectID()},
	}
}

func (f *fixture) insert(docs ...any) {
	f.Helper()
	_, err := f.docs.InsertMany(f.Context(), docs)
	must(f.T, err)
}

func (f *fixture) mend() {
	f.Helper()
	must(f.T, f.Mend(f.Context(), []string{setID}))
}

func TestDocumentsThatWereThereBeforeBecomeTheFirstRevision(t *testing.T) {
	for name, notice := range map[string]func(*fixture){
		"when they are loaded":      func(f *fixture) { f.load() },
		"when a gateway mends":      (*fixture).mend,
		"when somebody puts others": func(f *fixture) { f.wantConflict(newSet(f, setID, rule("x", 1)), 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{CheckEvery: 1})
			f.insert(javaDocument("rule-1"), javaDocument("rule-2"))
			notice(f)
			v := f.load()
			if v.Revision != 1 || v.Author != external || v.RuleSet.Len() != 2 {
				t.Fatalf("revision %d by %q with %d rules", v.Revision, v.Author, v.RuleSet.Len())
			}
			for r := range v.RuleSet.Rules() {
				if r.Scope != fluxgate.ScopeIP || r.Bands[1].Refill != time.Minute || r.Bands[0].Capacity != 100 || r.Priority != 10 {
					t.Errorf("it was read as %+v", r)
				}
			}
			f.mended(true)
			f.mend() // and again: nothing has changed
			if f.headNow().Revision != 1 {
				t.Errorf("it became revision %d, by %s", f.headNow().Revision, f.authors())
			}
			// What others keep in it is still there, in their spelling.
			doc := f.document("rule-1")
			if doc["_class"] != "org.fluxgate.Rule" || doc["limitScope"] != "PER_IP" || doc["owner"] == nil || doc["priority"] != 10.0 {
				t.Errorf("the document has become %v", doc)
			}
		})
	}
}

func (f *fixture) wantConflict(set *fluxgate.RuleSet, base, current int64) {
	f.Helper()
	_, err := f.Put(f.Context(), set, by(base))
	var conflict *rules.ConflictError
	if !errors.As(err, &conflict) || conflict.Current != current {
		f.Fatalf("Put based on revision %d: %v, want a conflict with revision %d", base, err, current)
	}
}

func TestEditsOfDocumentsBecomeRevisions(t *testing.T) {
	remove := func(f *fixture, id string) {
		_, err := f.docs.DeleteOne(f.Context(), bson.D{{Key: "_id", Value: id}})
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
		"a document is added":   {func(f *fixture) { f.insert(byHand("d", 7.0)) }, "a=1 b=1 c=1 d=7", "documents added d"},
		"a document is removed": {func(f *fixture) { remove(f, "b") }, "a=1 c=1", "documents removed b"},
		"all at once": {func(f *fixture) {
			f.shell("a", set("bands.0.capacity", 3))
			f.insert(byHand("d", 4), byHand("e", 5))
			remove(f, "c")
		}, "a=3 b=1 d=4 e=5", "documents edited a; added d, e; removed c"},
		"all are replaced by others": {func(f *fixture) {
			_, err := f.docs.DeleteMany(f.Context(), bson.D{})
			must(f.T, err)
			f.insert(byHand("z", 9))
		}, "z=9", "documents added z; removed a, b, c"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{CheckEvery: 1})
			f.put(threeRules()...)
			tc.edit(f)
			f.mend()
			v := f.load()
			if got := capacities(v.RuleSet); got != tc.want || v.Revision != 2 || v.Author != external || v.Comment != tc.comment {
				t.Errorf("revision %d by %s because %q: %s", v.Revision, v.Author, v.Comment, got)
			}
			f.mended(true)
			f.mend()
			if f.headNow().Revision != 2 {
				t.Errorf("looking again made revision %d: %s", f.headNow().Revision, f.authors())
			}
			// A person who has not seen the edit does not write over it.
			f.wantConflict(newSet(t, setID, rule("a", 9)), 1, 2)
		})
	}
}

func TestAnEditIsTakenInByTheNextWriterAtOnce(t *testing.T) {
	f := newFixture(t, Config{}) // whose gateways look once a minute
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

func TestUnknownFieldsSurviveEveryChange(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	first := rule("a", 1)
	first.When.Hosts = []string{"a.example.com"}
	f.put(first, rule("b", 1))
	f.shell("a", bson.D{{Key: "$set", Value: bson.D{
		{Key: "owner", Value: "team"}, {Key: "bands.0.note", Value: "why"}, {Key: "when.ticket", Value: 7},
		{Key: "tags", Value: bson.D{{Key: "x", Value: bson.A{1, "two"}}}},
	}}})
	f.mend()
	if f.headNow().Revision != 1 {
		t.Errorf("fields that nobody knows made revision %d", f.headNow().Revision)
	}
	check := func(what string) {
		t.Helper()
		doc := f.document("a")
		band := doc["bands"].(bson.A)[0].(bson.D)
		when := doc["when"].(bson.D)
		if doc["owner"] != "team" || doc["tags"] == nil || band[len(band)-1].Value != "why" || when[len(when)-1].Key != "ticket" {
			t.Errorf("%s: the document is %v", what, doc)
		}
		f.mended(true)
	}
	second := rule("a", 2)
	second.When.Hosts = []string{"b.example.com"}
	second.Paths = []string{"/x", "/y"}
	f.put(second)
	check("after a change of everything")
	if doc := f.document("a"); doc["path"] != nil || len(doc["paths"].(bson.A)) != 2 {
		t.Errorf("the paths are %v and %v", doc["path"], doc["paths"])
	}
	_, err := rules.Restore(t.Context(), f, setID, 1, by(2))
	must(t, err)
	check("after a restore")
	if doc := f.document("b"); doc == nil || doc["revision"] != int64(3) {
		t.Errorf("the restored document is %v", doc)
	}
}

func TestAnEditThatBreaksTheRulesChangesNothingAndIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		update bson.D
		want   string
	}{
		"a number below 1":       {set("bands.0.capacity", 0), `rule "a": bands[0].capacity: must be at least 1`},
		"a fraction":             {set("bands.0.capacity", 1.5), `rule "a": bands[0].capacity: must be a whole number, not 1.5`},
		"a text":                 {set("bands.0.capacity", "many"), `rule "a": bands[0].capacity: must be a whole number, not a text`},
		"an object id":           {set("group", bson.NewObjectID()), `rule "a": group: must not be of the BSON type objectID`},
		"an object id in a list": {set("attributes", bson.D{{Key: "x", Value: bson.A{1, bson.NewObjectID()}}}), `rule "a": attributes.x[1]: must not be of the BSON type objectID`},
		"binary data":            {set("path", bson.Binary{Data: []byte("x")}), `rule "a": path: must not be of the BSON type binary`},
		"a scope of its own":     {set("limitScope", "MOON"), `rule "a": limitScope: must be one of`},
		"no bands":               {set("bands", bson.A{}), `rule "a": bands: must have at least one band`},
		"another id":             {set("id", "other"), `rule "a": _id: says something else than id`},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			f := newFixture(t, Config{CheckEvery: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			f.put(threeRules()...)
			before := text(t, f.load().RuleSet)
			f.shell("a", tc.update)
			f.shell("b", set("priority", 5)) // the good half of it
			err := f.Mend(t.Context(), []string{setID})
			if !errors.As(err, new(*fluxgate.ValidationError)) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Mend: %v", err)
			}
			if text(t, f.load().RuleSet) != before || f.headNow().Revision != 1 {
				t.Errorf("it has changed the rules: %s", f.authors())
			}
			// A gateway that does not look itself reports it too.
			patient := f.handle(Config{CheckEvery: time.Hour})
			if err := patient.Mend(t.Context(), []string{setID}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Mend of another gateway: %v", err)
			}
			// A person's next change overrules it, and says so.
			f.put(rule("a", 4), rule("c", 4))
			if got := capacities(f.load().RuleSet); got != "a=4 c=4" {
				t.Errorf("the rules are %s", got)
			}
			f.mended(true)
			f.mend()
			must(t, patient.Mend(t.Context(), []string{setID}))
			if !strings.Contains(log.String(), "overrules an edit") || f.authors() != "ann ann" {
				t.Errorf("by %s, and the log says %s", f.authors(), log.String())
			}
		})
	}
}

func TestAnEditThatIsPutRightIsNoLongerReported(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(threeRules()...)
	f.shell("a", set("bands.0.capacity", -1))
	if f.Mend(t.Context(), []string{setID}) == nil {
		t.Fatal("a broken edit is not reported")
	}
	f.shell("a", set("bands.0.capacity", 1))
	f.mend()
	must(t, f.handle(Config{CheckEvery: time.Hour}).Mend(t.Context(), []string{setID}))
	if f.headNow().Revision != 1 {
		t.Errorf("going back made revision %d", f.headNow().Revision)
	}
	f.mended(true)
}

func TestAnOverruledEditStaysOverruledIfTheWriterDies(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
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
	f.mend()
	f.mended(true)
	if got := capacities(f.load().RuleSet); got != "a=4" || f.authors() != "ann ann" {
		t.Errorf("by %s: %s", f.authors(), got)
	}
}

func TestALostCollectionIsWrittenAgain(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(threeRules()...)
	must(t, f.docs.Drop(t.Context()))
	f.mend()
	f.mended(true)
	if f.authors() != "ann" {
		t.Errorf("by %s", f.authors())
	}
	must(t, f.docs.Drop(t.Context()))
	f.put(rule("a", 2)) // is no conflict
	f.mended(true)
}

func TestALostHistoryIsMadeAgainFromTheDocuments(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(threeRules()...)
	want := text(t, f.load().RuleSet)
	must(t, f.versions.Drop(t.Context()))
	f.mend()
	if v := f.load(); text(t, v.RuleSet) != want || v.Revision != 2 || v.Author != external {
		t.Errorf("revision %d by %s: %s", v.Revision, v.Author, text(t, v.RuleSet))
	}
}

func TestLostHeadsDoNotCountFromTheBeginning(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(threeRules()...)
	f.put(rule("a", 2))
	must(t, f.heads.Drop(t.Context()))
	if v := f.load(); v.Revision != 3 || capacities(v.RuleSet) != "a=2" {
		t.Errorf("revision %d: %s", v.Revision, capacities(v.RuleSet))
	}
	f.mended(true)
}

func TestDocumentsOfADeletedRuleSet(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	f.put(threeRules()...)
	kept := f.document("a")
	_, err := f.Delete(t.Context(), setID, by(1))
	must(t, err)
	f.mended(true)
	f.insert(kept) // comes back from a backup: we wrote it, and deleted it
	f.mend()
	if h := f.headNow(); !h.Deleted || h.Revision != 2 || f.document("a") != nil {
		t.Errorf("a document that was deleted has made revision %d (deleted %t)", h.Revision, h.Deleted)
	}
	f.insert(javaDocument("new")) // is made by hand
	f.mend()
	if v := f.load(); v.Revision != 3 || v.Author != external || v.RuleSet.Len() != 1 {
		t.Errorf("revision %d by %s", v.Revision, v.Author)
	}
	f.mended(true)
}

func TestWhatDocumentsCannotShowSurvivesAnEditBesideIt(t *testing.T) {
	f := newFixture(t, Config{CheckEvery: 1})
	r := rule("a", 1)
	r.CreatedAt = time.Date(2024, 1, 1, 0, 0, 0, 123456789, time.UTC)
	r.Attributes = map[string]any{"a.b": 1, "$set": 2, "": 3, "100%": 4, "%2E": 5, "big": uint64(1 << 63), "exact": 1.50}
	r.When.Attributes = map[string][]string{"user.tier": {"gold"}}
	f.put(r)
	f.mended(true)
	f.shell("a", set("priority", 5))
	f.mend()
	v := f.load()
	r.Priority = 5
	if got, want := text(t, v.RuleSet), text(t, newSet(t, setID, r)); v.Revision != 2 || got != want {
		t.Errorf("revision %d is\n%s\nwant\n%s", v.Revision, got, want)
	}
	f.mended(true)
}

func TestContentIsLookedAtOnceForTheFleet(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	config := Config{CheckEvery: time.Minute, Now: clock}
	f := newFixture(t, config)
	f.put(threeRules()...)
	looks := 0
	config.step = func(doing string) error {
		if doing == "reading the documents of a rule set" {
			looks++
		}
		return nil
	}
	var fleet []*Source
	for range 5 {
		fleet = append(fleet, f.handle(config))
	}
	mend := func(want int, when string) {
		t.Helper()
		looks = 0
		for _, s := range fleet {
			must(t, s.Mend(t.Context(), []string{setID}))
		}
		if looks != want {
			t.Errorf("%s the fleet looked %d times, want %d", when, looks, want)
		}
	}
	mend(0, "right after the change")
	now = now.Add(61 * time.Second)
	mend(1, "after a minute")
	mend(0, "right after a look")
	now = now.Add(-time.Hour)
	mend(1, "when the last look is an hour in the future")
	f.shell("a", set("priority", 1))
	now = now.Add(61 * time.Second)
	mend(2, "when there is an edit") // and once more to write it
	if f.authors() != "external ann" {
		t.Errorf("by %s", f.authors())
	}
}
