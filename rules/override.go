package rules

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/printable"
)

const (
	// MaxOverrides is the maximum number of overrides of a rule set.
	MaxOverrides = 100_000
	// maxIdentity bounds the values of an identity together, in bytes.
	maxIdentity = 4_096
)

// Override replaces the numbers of a rule for one caller: the bucket stays the same, and what
// was used of it carries over.
type Override struct {
	RuleSetID string
	RuleID    string
	// Identity has the value of each part of the rule's key, by the names of
	// [Rule.KeyFields]: ip, userId, apiKey and so on. It is empty for [ScopeGlobal]. An API
	// key is kept as its digest, and so are headers and attributes whose names suggest a
	// secret, such as header:Authorization.
	Identity map[string]string
	// Times multiplies the capacities and refills of the rule, or Bands replace its bands:
	// they differ from them in Capacity and RefillTokens only.
	Times Times
	Bands []Band
	// Until is when the override ends. Zero means never.
	Until  time.Time
	Reason string
	// Author made the change at the time At.
	Author string
	At     time.Time
	// Revision orders the changes of the overrides of a rule set. Deleted is true for an
	// override that was deleted.
	Revision int64
	Deleted  bool

	// id is that of an override as it is stored, if its identity has a secret beside an API
	// key: builds that stored such values in the clear made the id of them.
	id string
}

// Deletion returns the change that deletes the override, at any revision.
func (o *Override) Deletion(author string) Override {
	return Override{RuleSetID: o.RuleSetID, RuleID: o.RuleID, Identity: o.Identity, Author: author, Deleted: true, id: o.id}
}

// Overrides is a source that has overrides too. To read all of them, read the revision, then
// the list, and then the changes since that revision.
type Overrides interface {
	// OverrideRevisions returns the revisions of the last changes of overrides of rule sets,
	// in one small read. A rule set that never had one is not in the result. The first
	// revision of a rule set is not 1 but made of the time, and the one before it counts as
	// forgotten: a source that has lost its data must not number other overrides alike.
	OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error)
	// OverrideChanges returns the overrides of a rule set that changed after a revision, in
	// the order of their revisions, at most [PageSize]. Deleted ones are among them, without
	// numbers. The error is [ErrOverridesLost] if deletions after that revision were
	// forgotten, or if the source never had that revision: read all of them. After 0 all are
	// changes, and none is lost.
	OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (OverridePage, error)
	// Override returns the override with an id, or [ErrNotFound].
	Override(ctx context.Context, ruleSet, id string) (Override, error)
	// ListOverrides returns the overrides that exist in the order of [Override.Position]: at
	// most [PageSize] after a position. One that changes meanwhile may be missing.
	ListOverrides(ctx context.Context, ruleSet, after string, limit int) (OverridePage, error)
}

// OverridePage is a part of the overrides of a rule set.
type OverridePage struct {
	Overrides []Override
	// Damaged says why entries of the source could not be read, by the ids of the overrides.
	Damaged map[string]error
	// Revision is the last revision that was read, of a page of changes.
	Revision int64
	// Next is the position after which the next page of a list begins. It is empty if there
	// is none.
	Next string
}

// Add adds an override, or why it could not be read.
func (p *OverridePage) Add(id string, o Override, err error) {
	if err == nil {
		p.Overrides = append(p.Overrides, o)
		return
	}
	if p.Damaged == nil {
		p.Damaged = map[string]error{}
	}
	p.Damaged[id] = err
}

// OverrideEditor is where overrides can be written. If it is an [Editor] too, the overrides of a rule
// set are deleted with it: a rule set that is put later under the same id, or restored, has none.
type OverrideEditor interface {
	Overrides
	// PutOverrides writes overrides of a rule set, at most [MaxPage] different ones, and
	// deletes those that are Deleted. A change with a Revision is for an override at this
	// revision, and one with -1 for an override that does not exist. If one is not, the error
	// is an [*OverrideConflictError], and nothing is written. For a rule set that was deleted the
	// error is [ErrNotFound]. The source sets At. It returns the last revision of the rule set's
	// overrides.
	PutOverrides(ctx context.Context, ruleSet string, changes []Override) (revision int64, err error)
}

// ErrNoOverrides is wrapped by errors about a rule source that has no overrides.
var ErrNoOverrides = errors.New("the rule source has no overrides")

// ErrOverridesLost is returned by a source that does not know the changes since a revision.
var ErrOverridesLost = errors.New("the changes since then are not known any more")

// ErrTooManyOverrides is wrapped by errors about a rule set with more than [MaxOverrides].
var ErrTooManyOverrides = fmt.Errorf("a rule set can have %d overrides", MaxOverrides)

// OverrideConflictError is returned for a change of an override that is at another revision.
type OverrideConflictError struct {
	ID            string
	Base, Current int64
}

func (e *OverrideConflictError) Error() string {
	return fmt.Sprintf("override %s is at revision %d, not at %d: another operator changed it", e.ID, e.Current, e.Base)
}

// Times is a factor with three decimal places, in thousandths.
type Times int64

// ParseTimes reads a decimal above 0 with at most three places. Its error does not show s.
func ParseTimes(s string) (Times, error) {
	whole, places, dot := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole+(places + "000")[:3], 10, 63)
	if err != nil || n == 0 || len(places) > 3 || dot && places == "" || whole == "" {
		return 0, errors.New("must be a number above 0 with at most three decimal places, such as 1.5")
	}
	return Times(n), nil
}

func (t Times) String() string {
	text := fmt.Sprintf("%d.%03d", t/1000, t%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON writes a number.
func (t Times) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalJSON reads a number.
func (t *Times) UnmarshalJSON(text []byte) (err error) {
	*t, err = ParseTimes(string(text))
	return err
}

// of multiplies a number of tokens, rounds down, and returns at least 1. The product is
// negative if it is too large.
func (t Times) of(n int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(t))
	if high >= 1000/2 { // above the largest int64
		return -1
	}
	product, _ := bits.Div64(high, low, 1000)
	return max(1, int64(product))
}

// multiply multiplies the numbers of the band.
func (b *Band) multiply(times Times) error {
	capacity, refill := times.of(b.Capacity), times.of(b.Tokens())
	if capacity < 0 || refill < 0 {
		return fmt.Errorf("%s times %d is too large", times, max(b.Capacity, b.Tokens()))
	}
	if b.Capacity = capacity; b.Kind == "" || b.Kind == TokenBucket {
		b.RefillTokens = refill
	}
	return nil
}

// Overridden returns the bands of the rule with the numbers of an override. The error says why
// they do not fit.
func (r *Rule) Overridden(times Times, bands []Band) ([]Band, error) {
	own := slices.Clone(r.Bands)
	if len(bands) > 0 && len(bands) != len(own) {
		return nil, fmt.Errorf("the rule has %d bands, not %d", len(own), len(bands))
	}
	for i := range own {
		b := &own[i]
		if len(bands) > 0 {
			given := bands[i]
			if err := amount.Check(given.currency, r.Measure()); err != nil {
				return nil, fmt.Errorf("band %d %w", i, err)
			}
			given.currency = ""
			given.Kind, b.Kind = cmp.Or(given.Kind, TokenBucket), cmp.Or(b.Kind, TokenBucket)
			b.Capacity, b.RefillTokens, given.WarnAt = given.Capacity, given.RefillTokens, b.WarnAt
			if given != *b {
				return nil, fmt.Errorf("band %d has another label, kind or period than %s of the rule",
					i, printable.Quote(r.Bands[i].Name()))
			}
		} else if err := b.multiply(times); err != nil {
			return nil, err
		}
		if _, err := r.Exact(*b, i); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// ID names the override by its rule and identity: 32 hexadecimal digits.
func (o *Override) ID() string {
	if o.id != "" {
		return o.id
	}
	var text []byte
	write := func(s string) { text = append(append(strconv.AppendInt(text, int64(len(s)), 10), ':'), s...) }
	write(o.RuleID)
	for _, name := range slices.Sorted(maps.Keys(o.Identity)) {
		write(name)
		write(o.Identity[name])
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Position orders the overrides of a rule set: those that end first come before others, and
// those without an end last.
func (o *Override) Position() string {
	end := int64(math.MaxInt64)
	if !o.Until.IsZero() {
		end = max(0, o.Until.UnixMicro())
	}
	return fmt.Sprintf("%016x%s", end, o.ID())
}

// Check returns an error for an override that no rule could have, and replaces secrets of its
// identity by their digests. Whether it fits its rule is checked by the engine.
func (o *Override) Check() error {
	switch {
	case !ValidID(o.RuleSetID) || !ValidID(o.RuleID):
		return errors.New("an override needs a valid rule set and rule")
	case o.Deleted && (o.Times != 0 || len(o.Bands) > 0):
		return errors.New("a deleted override has no numbers")
	case !o.Deleted && (o.Times == 0) == (len(o.Bands) == 0):
		return errors.New("an override has either times or bands")
	case o.Times < 0:
		return errors.New("times must be above 0")
	}
	if len(o.Bands) > 0 {
		var found problems
		in := reporter{found: &found}.at("bands")
		validateBands(&Rule{Bands: o.Bands}, in)
		for i := range o.Bands {
			if o.Bands[i].WarnAt != (Percents{}) {
				in.at(i, "warnAt").add(CodeInconsistent, "is not possible in an override: the percentages of the rule apply")
			}
		}
		if err := found.err(o.RuleSetID); err != nil {
			return err
		}
	}
	length := 0
	for name, value := range o.Identity {
		if length += len(name) + len(value); !isIdentity(name) || !isIdentity(value) || length > maxIdentity {
			return fmt.Errorf("the values of an identity must have 1 to %d bytes of UTF-8, and %d together", maxValueLength, maxIdentity)
		}
	}
	if err := o.digestSecrets(); err != nil {
		return err
	}
	if err := checkWords("author", o.Author, maxAuthor, ""); err != nil {
		return err
	}
	return checkWords("reason", o.Reason, maxComment, "\n\t")
}

// digestSecrets replaces the secrets of the identity by their digests.
func (o *Override) digestSecrets() error {
	digests := map[string]string{}
	for name, value := range o.Identity {
		if !isSecret(name) {
			continue
		}
		if wrong := wrongAPIKey(value); wrong != "" {
			return fmt.Errorf("the %s of an identity %s", printable.Quote(name), wrong)
		}
		digests[name] = DigestAPIKey(value)
	}
	if len(digests) > 0 {
		o.Identity = maps.Clone(o.Identity)
		maps.Copy(o.Identity, digests)
	}
	return nil
}

// isSecret reports whether a part of an identity is kept as its digest.
func isSecret(part string) bool {
	f, ok := keyfield.Parse(part)
	return ok && f.Secret()
}

// OverrideDocument is an [Override] as JSON.
type OverrideDocument struct {
	ID       string            `json:"id,omitempty" readOnly:"true" doc:"Names the rule and the identity."`
	RuleSet  string            `json:"ruleSetId,omitempty" doc:"The rule set."`
	Rule     string            `json:"ruleId" doc:"The rule whose numbers are replaced."`
	Identity map[string]string `json:"identity" doc:"The parts of the rule's key: ip, userId, apiKey, attr:NAME and so on."`
	Times    Times             `json:"times,omitempty" type:"number" doc:"Multiplies capacities and refills: above 0, three decimals."`
	Bands    []BandDocument    `json:"bands,omitempty" nullable:"false" doc:"Instead of times: the bands of the rule with other numbers."`
	Until    *time.Time        `json:"until,omitempty" doc:"When the override ends. The default is never."`
	Reason   string            `json:"reason,omitempty" doc:"Why."`
	Author   string            `json:"author,omitempty" readOnly:"true" doc:"Who wrote it."`
	At       *time.Time        `json:"at,omitempty" readOnly:"true" doc:"When it was written."`
	Revision int64             `json:"revision,omitempty" doc:"In a change: the revision that it is based on."`
	Deleted  bool              `json:"deleted,omitempty" doc:"In a change: delete it."`
}

// Document returns the override as JSON shows it.
func (o *Override) Document() OverrideDocument {
	d := OverrideDocument{
		ID: o.ID(), RuleSet: o.RuleSetID, Rule: o.RuleID, Identity: o.Identity, Times: o.Times, Reason: o.Reason,
		Until: unlessZero(&o.Until), At: unlessZero(&o.At), Author: o.Author, Revision: o.Revision, Deleted: o.Deleted,
	}
	for _, b := range o.Bands {
		d.Bands = append(d.Bands, newBandDocument(b))
	}
	return d
}

// MarshalJSON writes the override in the shape that [DecodeOverride] reads.
func (o Override) MarshalJSON() ([]byte, error) { return json.Marshal(o.Document()) }

// DecodeOverride reads an override from a tree of maps, lists and scalars, and checks it. It
// ignores unknown fields: a later version may have stored it.
func DecodeOverride(doc map[string]any) (Override, error) { return decodeOverride(doc, true) }

// ReadOverride is [DecodeOverride] for what people write: unknown fields are errors.
func ReadOverride(doc map[string]any) (Override, error) { return decodeOverride(doc, false) }

func decodeOverride(doc map[string]any, lenient bool) (Override, error) {
	var found problems
	in := &object{reporter: reporter{found: &found}, fields: doc, lenient: lenient}
	o := Override{
		RuleSetID: in.text("ruleSetId"), RuleID: in.text("ruleId"), Identity: map[string]string{},
		Times: read(in, "times", "a number", decodeTimes), Until: in.moment("until"), Reason: in.text("reason"),
		Author: in.text("author"), At: in.moment("at"), Revision: in.integer("revision"), Deleted: in.boolean("deleted", false),
	}
	if identity := in.object("identity"); identity != nil {
		for name := range identity.fields {
			if value, ok := identity.fields[name].(string); ok {
				o.Identity[name] = value
			} else { // which is not shown: it may be a secret
				identity.at(name).add(CodeWrongType, "must be a string")
			}
		}
	}
	for _, b := range in.objects("bands", bucket.MaxBands) {
		o.Bands = append(o.Bands, decodeBand(b, ""))
	}
	id := in.get("id") // which is made of the rest
	in.refuseUnknown()
	if err := found.err(o.RuleSetID); err != nil {
		return o, err
	}
	if id, ok := id.(string); ok && lenient && o.hasOtherSecret() {
		o.id = id
	}
	err := o.Check() // which replaces secrets
	return o, err
}

// hasOtherSecret reports whether the identity has a secret beside an API key.
func (o *Override) hasOtherSecret() bool {
	for name := range o.Identity {
		if name != "apiKey" && isSecret(name) {
			return true
		}
	}
	return false
}

func decodeTimes(value any) (Times, bool) {
	if f, ok := value.(float64); ok {
		value = strconv.FormatFloat(f, 'f', -1, 64)
	}
	t, err := ParseTimes(fmt.Sprint(value))
	return t, err == nil
}

// UnmarshalJSON reads an override as [DecodeOverride] does.
func (o *Override) UnmarshalJSON(text []byte) (err error) {
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return err
	}
	*o, err = DecodeOverride(doc)
	return err
}

// CheckBase returns an [*OverrideConflictError] if a change is not for the override as it is
// now. Revision 0 is for any.
func (o *Override) CheckBase(current int64) error {
	if o.Revision == 0 || o.Revision == current || o.Revision < 0 && current == 0 {
		return nil
	}
	return &OverrideConflictError{ID: o.ID(), Base: max(0, o.Revision), Current: current}
}

// CheckOverrides returns changes of a rule set as an editor keeps them, or why it must not.
// Editors call it before they write.
func CheckOverrides(ruleSet string, changes []Override) ([]Override, error) {
	if len(changes) > MaxPage {
		return nil, fmt.Errorf("a change can have %d overrides, not %d", MaxPage, len(changes))
	}
	own, seen := slices.Clone(changes), make(map[string]bool, len(changes))
	for i := range own {
		o := &own[i]
		o.RuleSetID = cmp.Or(o.RuleSetID, ruleSet)
		o.Identity, o.Bands = maps.Clone(o.Identity), slices.Clone(o.Bands)
		err := o.Check()
		id := o.ID()
		switch {
		case err != nil:
		case o.RuleSetID != ruleSet:
			err = fmt.Errorf("it is of rule set %q, not of %q", o.RuleSetID, ruleSet)
		case seen[id]:
			err = errors.New("the same override is among them twice")
		}
		if err != nil {
			return nil, fmt.Errorf("override %d of %d: %w", i+1, len(own), err)
		}
		seen[id] = true
	}
	return own, nil
}
