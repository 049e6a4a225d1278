package chaos_test

import "time"

// The times of the short form: enough to use a bucket up, and to see that a fault is
// noticed.
const (
	shortBefore = 1200 * time.Millisecond
	shortDuring = 2 * time.Second
)
