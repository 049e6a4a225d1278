package rulecontent

import (
	"fmt"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
)

// At most MaxGone deleted rule sets are remembered.
func TestContent_Remember(t *testing.T) {
	before, now := New(), New()
	for i := range 2 * MaxGone {
		before.Heads[fmt.Sprint(i)] = rules.Head{Revision: 1}
	}
	now.Heads["there"] = rules.Head{Revision: 2}
	now.Remember(&before)
	if len(now.Heads) != MaxGone+1 || now.Heads["there"].Deleted {
		t.Errorf("%d heads are kept, want %d", len(now.Heads), MaxGone+1)
	}
}
