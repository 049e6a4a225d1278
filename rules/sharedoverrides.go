package rules

import (
	"context"
	"errors"
	"time"
)

// SharedOverrides is where the servers of a fleet keep overrides whose rules come from elsewhere,
// such as files. Package rules/overridestore makes an [OverrideEditor] of it that survives the
// loss of its data: each server has a copy, and the copies are merged.
//
// The record identifies the data. The first write makes it. If it is missing, or has another
// epoch than a copy, the data was lost since the copy was made. If it has another ID, the copy is
// that of another fleet.
type SharedOverrides interface {
	Overrides
	// OverrideState reads what copies are compared with. It first notes since when the rules
	// of overrides are missing, and forgets that of those that are back: see [WaitingRules].
	OverrideState(ctx context.Context, waiting WaitingRules) (OverrideState, error)
	// PutSharedOverrides is PutOverrides of [OverrideEditor] for data with this record. If it
	// has another one, the error is [ErrOverrideRecord], and nothing is written. The zero
	// record is for data without one: it gets the next record.
	PutSharedOverrides(ctx context.Context, record, next OverrideRecord, ruleSet string, changes []Override) (revision int64, err error)
	// BeginRestore sets the record if there is none, and returns that of the data.
	BeginRestore(ctx context.Context, record OverrideRecord) (OverrideRecord, error)
	// RestoreOverrides merges a part of a copy into data with this record. Of two versions of an
	// override that with the higher revision stays, also if it is a deletion. An override that
	// only the copy has is added, unless it was deleted in a copy of a higher revision
	// that was restored before. The last part makes the overrides known to readers, at a revision
	// above all former ones. A copy of a revision that was restored already changes nothing.
	RestoreOverrides(ctx context.Context, record OverrideRecord, part *OverrideCopy) error
}

// OverrideRecord identifies the overrides of a fleet.
type OverrideRecord struct {
	// ID is random and stays the same. Epoch is random after each loss of data.
	ID    string `json:"id"`
	Epoch string `json:"epoch"`
}

// WaitingRules are rule sets and rules, as RULESET or RULESET/RULE: Missing has those with
// overrides that do not exist, Back those that were missing.
type WaitingRules struct{ Missing, Back []string }

// OverrideState describes overrides that a fleet shares.
type OverrideState struct {
	Record OverrideRecord
	Now    time.Time // by its clock
	// Fleet identifies the buckets that the data is beside, and Since is when these were first
	// used. They are zero if there are none.
	Fleet string
	Since time.Time
	// Revisions are those of the overrides by rule set. Restored are the highest revisions of
	// copies that were merged since the last loss of data.
	Revisions, Restored map[string]int64
	// Waiting is since when rule sets and rules are missing.
	Waiting map[string]time.Time
}

// OverrideCopy is a part of a copy of the overrides of a rule set.
type OverrideCopy struct {
	RuleSet string
	// Revision is that of the copy. Deletions up to Forgotten are not in it.
	Revision, Forgotten int64
	Overrides           []Override
	First, Last         bool
}

// ErrOverrideRecord is returned for a change of shared overrides that have another record.
var ErrOverrideRecord = errors.New("the overrides were lost, or are those of another fleet")
