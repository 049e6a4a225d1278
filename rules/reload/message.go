package reload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
)

// message is what is announced in Redis.
type message struct {
	RuleSetID  string `json:"ruleSetId,omitempty"`
	FullReload bool   `json:"fullReload"`
	Revision   int64  `json:"revision,omitempty"`
	Timestamp  int64  `json:"timestamp"` // milliseconds since 1970
	Source     string `json:"source,omitempty"`
	Signature  string `json:"signature,omitempty"`
}

// maxMessage is more than any message of ours has.
const maxMessage = 4 << 10

// sign is the signature of everything else in the message, and of the channel
// it is meant for.
func (m *message) sign(secret Secret, channel string) string {
	mac := hmac.New(sha256.New, secret)
	// %q keeps one field from reaching into the next.
	_, _ = fmt.Fprintf(mac, "fluxgate reload %q %q %t %d %d %q", channel, m.RuleSetID, m.FullReload, m.Revision, m.Timestamp, m.Source)
	return hex.EncodeToString(mac.Sum(nil))
}

// parseMessage reads an announcement: an object, in which fields that are not
// known may be there, since others announce too; or as other clients write
// them, the bare id of a rule set, or * for all.
func parseMessage(payload string) (message, error) {
	var m message
	if len(payload) > maxMessage {
		return m, errors.New("too long")
	}
	switch plain := strings.TrimSpace(payload); {
	case plain == "*":
		return message{FullReload: true}, nil
	case fluxgate.ValidID(plain):
		return message{RuleSetID: plain}, nil
	}
	if err := json.Unmarshal([]byte(payload), &m); err != nil {
		return m, err
	}
	if !m.FullReload && !fluxgate.ValidID(m.RuleSetID) {
		return m, errors.New("neither a rule set nor a full reload")
	}
	return m, nil
}

// verdict is what becomes of a message.
type verdict int

const (
	heard verdict = iota
	malformed
	unsigned
	stale
	replayed
)

const (
	// maxAge is how old a signed message may be, or how far ahead its clock.
	maxAge = 5 * time.Minute
	// remembered is how many messages are kept in mind to tell a repetition.
	remembered = 4_096
)

// messageGuard tells messages that are worth a look from others.
type messageGuard struct {
	secret Secret

	mu   sync.Mutex
	seen map[[sha256.Size]byte]bool
	ring [][sha256.Size]byte // seen, in the order they came
	next int
}

func (g *messageGuard) judge(payload, channel string, now time.Time) (message, verdict) {
	m, err := parseMessage(payload)
	if err != nil {
		return m, malformed
	}
	if len(g.secret) > 0 {
		if !hmac.Equal([]byte(m.sign(g.secret, channel)), []byte(m.Signature)) {
			return m, unsigned
		}
		// Replays older than the memory are refused by their age.
		if age := now.Sub(time.UnixMilli(m.Timestamp)); age > maxAge || age < -maxAge {
			return m, stale
		}
	}
	// Without a signature or a time nobody says that it is the same.
	if (len(g.secret) > 0 || m.Timestamp != 0) && g.repeated(m) {
		return m, replayed
	}
	return m, heard
}

// repeated reports whether the same message came before. Spelling does not
// make it another.
func (g *messageGuard) repeated(m message) bool {
	m.Signature = ""
	text, _ := json.Marshal(m) // cannot fail
	sum := sha256.Sum256(text)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen[sum] {
		return true
	}
	if g.seen == nil {
		g.seen = make(map[[sha256.Size]byte]bool)
	}
	if len(g.ring) < remembered {
		g.ring = append(g.ring, sum)
	} else {
		delete(g.seen, g.ring[g.next])
		g.ring[g.next] = sum
		g.next = (g.next + 1) % remembered
	}
	g.seen[sum] = true
	return false
}
