package mongorules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

// Names that MongoDB does not accept are encoded and decoded without loss.
func TestMongoName_RoundTrip(t *testing.T) {
	for name, want := range map[string]string{
		"tier": "tier", "a.b": "a%2Eb", "$set": "%24set", "a$": "a$", "": "%", "%": "%25", "100%": "100%25", "%2E": "%252E",
		"%25": "%2525", "%2525": "%252525", "a\x00b": "a%00b", "...": "%2E%2E%2E", "ключ": "ключ", "%zz": "%25zz",
	} {
		got := mongoName(name)
		if got != want || plainName(got) != name {
			t.Errorf("%q becomes %q, want %q, and is decoded as %q", name, got, want, plainName(got))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[string]string{}
	for range 20_000 {
		var b strings.Builder
		for range rng.IntN(6) {
			b.WriteString([]string{"%", ".", "$", "2", "E", "4", "5", "0", "\x00", "x"}[rng.IntN(10)])
		}
		name := b.String()
		in := mongoName(name)
		if plainName(in) != name || in == "" || in[0] == '$' || strings.ContainsAny(in, ".\x00") {
			t.Fatalf("%q becomes %q and is decoded as %q", name, in, plainName(in))
		}
		if other, ok := seen[in]; ok && other != name {
			t.Fatalf("%q and %q both become %q", name, other, in)
		}
		seen[in] = name
	}
}

// Numbers are kept exactly, or as strings.
func TestEncodeNumber_Exact(t *testing.T) {
	for s, want := range map[string]any{
		"0": int64(0), "-0": int64(0), "5": int64(5), "9223372036854775807": int64(math.MaxInt64), "9007199254740993": int64(9007199254740993),
		"0.1": 0.1, "1.50": 1.5, "1E+2": 100.0, "1e300": 1e300, "5e-324": 5e-324, "0.0": 0.0, "0e5": 0.0,
		"9223372036854775808": 9223372036854775808.0, "18446744073709551615": "18446744073709551615",
		"1e999": "1e999", "1e-999": "1e-999", "0.1000000000000000000000000001": "0.1000000000000000000000000001",
		"1e-999999999": "1e-999999999", strings.Repeat("1", 100): strings.Repeat("1", 100),
	} {
		if got := encodeNumber(s); got != want {
			t.Errorf("%s becomes %T %v, want %T %v", s, got, got, want, want)
		}
	}
}

// A BSON value that a rule cannot have is a problem with its path.
func TestReadDocument_Problems(t *testing.T) {
	decimal, _ := bson.ParseDecimal128("1.5")
	for name, tc := range map[string]struct {
		field string
		value any
		want  string
	}{
		"a decimal":      {"priority", decimal, `priority: must not be of type Decimal128`},
		"NaN":            {"priority", math.NaN(), `priority: must be a number, not NaN`},
		"infinity":       {"attributes", bson.D{{Key: "x", Value: bson.A{math.Inf(1)}}}, `attributes.x[0]: must be a number, not +Inf`},
		"a regexp":       {"path", bson.Regex{Pattern: ".*"}, `path: must not be of type Regex`},
		"a timestamp":    {"createdAt", bson.Timestamp{T: 1}, `createdAt: must not be of type Timestamp`},
		"the year 10000": {"createdAt", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), `createdAt: must be a time such as`},
		"a min key":      {"enabled", bson.MinKey{}, `enabled: must not be of type MinKey`},
		"code":           {"group", bson.JavaScript("x"), `group: must not be of type JavaScript`},
		"a number":       {"ruleSetId", 5, `ruleSetId: must be a string`},
	} {
		doc := bson.D{{Key: "_id", Value: "r"}, {Key: "ruleSetId", Value: "s"}}
		doc = slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == tc.field })
		raw, err := bson.Marshal(append(doc, bson.E{Key: tc.field, Value: tc.value}))
		must(t, err)
		d := readDocument(raw)
		if len(d.problems) == 0 || !strings.Contains(d.problems[0].String(), tc.want) || d.sum != "" {
			t.Errorf("%s: %v, want %s", name, d.problems, tc.want)
		}
	}
	raw, err := bson.Marshal(bson.D{{Key: "_id", Value: bson.ObjectID{1}}, {Key: "ruleSetId", Value: "s"}})
	must(t, err)
	d := readDocument(raw)
	if d.id != "" || len(d.problems) == 0 || !strings.Contains(d.problems[0].String(), `_id: must not be of type ObjectID`) {
		t.Errorf("an object id as the rule's: %v", d.problems)
	}
}

// anyRule returns random rules.
func anyRule(rng *rand.Rand) rules.Rule {
	coin := func() bool { return rng.IntN(2) == 0 }
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	some := func(all ...string) []string { return all[:rng.IntN(len(all)+1)] }
	r := rules.Rule{
		ID: "r", RuleSetID: "s", Paths: some("/a", "/b", "/c/**"), Methods: some("GET", "PUT"), Priority: rng.IntN(3),
		Scope: rules.Scope(pick("GLOBAL", "IP", "USER_ID", "API_KEY")), Group: pick("", "g"), Action: rules.Action(pick("", "limit")),
		Disabled: coin(), OnLimitExceed: rules.Policy(pick("", "REJECT", "WAIT_FOR_REFILL")), Mode: rules.Mode(pick("", "shadow")),
		OnFailure: rules.OnFailure(pick("", "open")), OnMissingIdentity: rules.OnMissingIdentity(pick("", "refuse")),
	}
	if coin() {
		r.Scope, r.KeyFields = rules.ScopeComposite, []string{"ip", "header:" + pick("A", "B")}
	}
	if coin() {
		r.When = rules.When{Hosts: some("h", "i"), Users: some("u", "v"), Headers: map[string][]string{pick("X.Y", "$Z"): {"*"}},
			Descriptor: []rules.DescriptorMatch{{Key: pick("a.b", "$c"), Value: pick("", "x*"), Except: some("xy", "xz*")}}}
	}
	if coin() {
		r.Attributes = map[string]any{pick("a", "b.c"): float64(rng.IntN(3)), "t": []any{"x", nil, map[string]any{"": coin()}}}
	}
	if coin() {
		r.CreatedAt = time.Unix(int64(rng.IntN(2)), 123456789).UTC()
	}
	for i := range 1 + rng.IntN(3) {
		r.Bands = append(r.Bands, rules.Band{
			Label: pick("", fmt.Sprintf("l%d", i)), Capacity: 1 + rng.Int64N(3), RefillTokens: rng.Int64N(3),
			Refill: []time.Duration{time.Second, 1500 * time.Millisecond, time.Hour}[rng.IntN(3)],
		})
	}
	return r
}

// A rewritten document is what it should be. The test applies the update to random
// documents, as the server does.
func TestRewrite_AnyRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		from, to := encodeRule(anyRule(rng)), encodeRule(anyRule(rng))
		if len(from.problems)+len(to.problems) > 0 {
			t.Fatal(from.problems, to.problems)
		}
		before := append(from.insertion(&head{Revision: 1}, false), bson.E{Key: "owner", Value: "team"})
		if rng.IntN(4) == 0 { // an invalid edit
			before = slices.DeleteFunc(before, func(e bson.E) bool { return e.Key == "bands" || e.Key == "paths" })
			before = append(before, bson.E{Key: "bands", Value: "none"}, bson.E{Key: "paths", Value: 5})
		}
		raw, err := bson.Marshal(before)
		must(t, err)
		d := readDocument(raw)
		d.want = &to
		after := applied(t, before, rewrite(d, 2))
		raw, err = bson.Marshal(after)
		must(t, err)
		d = readDocument(raw)
		d.want = &to
		if d.sum != to.sum || !d.untouched() || d.revision != 2 {
			t.Fatalf("of\n%v\nthe update to\n%v\nmakes\n%v\n%v", before, to.fields, after, d.problems)
		}
		if !slices.ContainsFunc(after, func(e bson.E) bool { return e.Key == "owner" }) {
			t.Fatalf("an unknown field is gone from %v", after)
		}
		if again := rewrite(d, 2); len(again) != 1 || len(again["$set"].(bson.M)) != 2 {
			t.Fatalf("a correct document would be rewritten with %v", again)
		}
	}
}

func applied(t *testing.T, doc bson.D, update bson.M) bson.D {
	t.Helper()
	doc = slices.Clone(doc)
	for op, fields := range update {
		for name, value := range fields.(bson.M) {
			i := slices.IndexFunc(doc, func(f bson.E) bool { return f.Key == name })
			switch {
			case op == "$set" && i >= 0:
				doc[i].Value = value
			case op == "$set":
				doc = append(doc, bson.E{Key: name, Value: value})
			case op == "$unset" && i >= 0:
				doc = slices.Delete(doc, i, i+1)
			default:
				t.Fatalf("unknown operation %v", op)
			}
		}
	}
	return doc
}

// A rule that is too large for a document is rejected before the commit.
func TestEncodeRule_TooLarge_NoRace(t *testing.T) {
	r := rule("a", 1)
	r.Attributes = map[string]any{"text": strings.Repeat("x", maxBSON)}
	problems := encodeRule(r).problems
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "bytes as a MongoDB document") {
		t.Errorf("the problems are %v", problems)
	}
	deep := any("x")
	for range 95 {
		deep = map[string]any{"d": deep}
	}
	r.Attributes = map[string]any{"deep": deep}
	if problems = encodeRule(r).problems; len(problems) != 1 || problems[0].Message != "is nested too deeply" {
		t.Errorf("the problems are %v", problems)
	}
}
