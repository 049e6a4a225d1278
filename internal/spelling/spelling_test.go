package spelling_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/internal/spelling"
)

// The suggestion for a typo is the nearest name.
func TestNearest_Names(t *testing.T) {
	names := []string{"capacity", "refillTokens", "bands", "label", "REDIS_PUBSUB", "uri"}
	for name, want := range map[string]string{
		"capcity": "capacity", "cpaacity": "capacity", "Capacity": "capacity", "refill_tokens": "refillTokens", "band": "bands", "lable": "label",
		"redis-pubsub": "REDIS_PUBSUB", "url": "uri", "window": "", "": "", "x": "", "password": "",
	} {
		if got := spelling.Nearest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
