package testenv

import (
	"testing"
	"time"
)

// eventuallyLimit is longer than any condition takes on a slow machine.
const eventuallyLimit = time.Minute

// Eventually waits until a condition holds, and fails the test after a minute.
// The description completes the sentence "timed out waiting until …".
func Eventually(t testing.TB, description string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(eventuallyLimit); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out after %v waiting until %s", eventuallyLimit, description)
		}
	}
}
