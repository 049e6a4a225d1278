package redisrules

// keys are the names that things have in Redis. All have one hash tag, so that
// they stand in one slot of a cluster and a script may touch them together.
// The buckets of a redisstore have other tags, of at most four characters.
type keys struct {
	heads, names, current, bytes string
	ofSet                        string // what those of one rule set begin with
}

func newKeys(prefix string) keys {
	base := prefix + ":{rules}:"
	return keys{
		heads: base + "heads", names: base + "names", current: base + "current",
		bytes: base + "bytes", ofSet: base,
	}
}

// history is the lines of a rule set's history, by revision.
func (k *keys) history(id string) string { return k.ofSet + "history:" + id }

// documents is the JSON of a rule set, by revision.
func (k *keys) documents(id string) string { return k.ofSet + "documents:" + id }

// changes is the revisions of a rule set, by the token of the change.
func (k *keys) changes(id string) string { return k.ofSet + "changes:" + id }
