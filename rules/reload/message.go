package reload

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// message is what is announced in Redis. Only the rule set of one that is
// received is used: the source says which revision there is.
type message struct {
	RuleSetID  string `json:"ruleSetId,omitempty"`
	FullReload bool   `json:"fullReload"`
	Revision   int64  `json:"revision,omitempty"`
	Timestamp  int64  `json:"timestamp"` // milliseconds since 1970
	Source     string `json:"source,omitempty"`
}

// maxMessage is more than any message of ours has.
const maxMessage = 4 << 10

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
