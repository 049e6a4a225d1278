package testenv

import (
	"strconv"
	"testing"
	"time"
)

// The clock of a server can be stepped forward and back while it runs.
func TestServer_StepClock(t *testing.T) {
	s := StartStandalone(t, Config{SteppedClock: true})
	for _, offset := range []time.Duration{0, time.Hour, -90 * time.Minute, -1500 * time.Millisecond} {
		must(t, s.StepClock(offset))
		reply, err := s.Do(testContext(t), "TIME")
		must(t, err)
		unix, err := strconv.ParseInt(reply.([]any)[0].(string), 10, 64)
		must(t, err)
		if off := time.Until(time.Unix(unix, 0)) - offset; off < -20*time.Second || off > 2*time.Second {
			t.Errorf("an offset of %v is off by %v", offset, off)
		}
	}
	if err := StartStandalone(t, Config{}).StepClock(time.Hour); err == nil {
		t.Error("the clock of a server without SteppedClock was stepped")
	}
}
