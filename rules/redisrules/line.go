package redisrules

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Data in Redis is untrusted: accept only what the scripts write.
var (
	errHead = errors.New("its head is not a revision")
	errLine = errors.New("its line of history cannot be read")
)

// commitLength is how many characters of the token of a change are its commit, as in commit.lua.
const commitLength = 10

// Kinds of changes.
const (
	wasPut     = "put"
	wasDeleted = "deleted"
)

// parseHead parses "7" or "7 deleted".
func parseHead(s string) (rules.Head, error) {
	number, state, more := strings.Cut(s, " ")
	revision, ok := parseNumber(number)
	if !ok || more && state != wasDeleted {
		return rules.Head{}, errHead
	}
	return rules.Head{Revision: revision, Deleted: more}, nil
}

// parseNumber parses a positive number that a script has written.
func parseNumber(s string) (int64, bool) {
	const most = 1 << 53 // doubles are exact below
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0 && n < most && strconv.FormatInt(n, 10) == s
}

// parseCommit parses "7 MFZWIZTBNZ". It returns nothing if that is of another revision:
// the writer of the current one did not know commits.
func parseCommit(revision int64, s string) string {
	number, token, _ := strings.Cut(s, " ")
	if n, ok := parseNumber(number); !ok || n != revision {
		return ""
	}
	return token
}

// parseLine parses a line of the history:
//
//	7 put 1767225600000000 MFZWIZTBNZSG4ZDF
//	alice
//	twice as much for premium
func parseLine(id, s string) (rules.Entry, error) {
	entry := rules.Entry{RuleSetID: id}
	first, words, _ := strings.Cut(s, "\n")
	author, comment, ok := strings.Cut(words, "\n")
	fields := strings.Split(first, " ")
	if !ok || len(fields) != 4 || fields[1] != wasPut && fields[1] != wasDeleted {
		return entry, errLine
	}
	revision, isRevision := parseNumber(fields[0])
	at, isMoment := parseNumber(fields[2])
	if !isRevision || !isMoment || (rules.Change{Author: author, Comment: comment}).Check() != nil {
		return entry, errLine
	}
	entry.Head = rules.Head{Revision: revision, Deleted: fields[1] == wasDeleted, Commit: fields[3][:min(len(fields[3]), commitLength)]}
	entry.Author, entry.Comment, entry.At = author, comment, time.UnixMicro(at).UTC()
	return entry, nil
}
