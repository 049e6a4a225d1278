package testenv

import (
	"testing"
	"time"
)

// eventuallyLimit is longer than any condition takes on a slow machine.
const eventuallyLimit = time.Minute

// Eventually waits until a condition holds, and fails the test after a minute.
// The description completes the sentence "waited in vain until …".
func Eventually(t testing.TB, description string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(eventuallyLimit); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s", eventuallyLimit, description)
		}
	}
}
