package reload

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzMessage holds that nothing is heard that was not signed, however it is
// spelled.
func FuzzMessage(f *testing.F) {
	secret, now := Secret("sixteen bytes and more"), time.UnixMilli(1_700_000_000_000)
	good := message{RuleSetID: "set", Revision: 7, Timestamp: now.UnixMilli(), Source: "x"}
	good.Signature = good.sign(secret, "channel")
	text, err := json.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(text), `{}`, `{"ruleSetId":"set"}`, `{"fullReload":true}`, `{"ruleSetId":"a\u0000b"}`,
		`{"ruleSetId":"set","revision":7,"timestamp":1700000000000,"source":"y"}`, `[1]`, `{"RULESETID":"set"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		guard := messageGuard{secret: secret}
		m, what := guard.judge(payload, "channel", now)
		same := good
		same.Signature = m.Signature
		if what == heard && m != same {
			t.Fatalf("%q was heard", payload)
		}
		open := messageGuard{}
		if m, first := open.judge(payload, "channel", now); first == heard && m.Timestamp != 0 {
			if _, second := open.judge(payload, "channel", now); second != replayed {
				t.Fatalf("%q was heard twice", payload)
			}
		}
	})
}

func TestOldMessagesAreStaleAndOtherChannelsUnsigned(t *testing.T) {
	secret, now := Secret("sixteen bytes and more"), time.Now()
	announce := func(age time.Duration) string {
		m := message{RuleSetID: "set", Timestamp: now.Add(-age).UnixMilli()}
		m.Signature = m.sign(secret, "channel")
		text, _ := json.Marshal(m)
		return string(text)
	}
	guard := messageGuard{secret: secret}
	for _, c := range []struct {
		age     time.Duration
		channel string
		want    verdict
	}{
		{0, "channel", heard}, {4 * time.Minute, "channel", heard}, {-4 * time.Minute, "channel", heard}, {6 * time.Minute, "channel", stale},
		{-6 * time.Minute, "channel", stale}, {0, "channel", replayed}, {time.Minute, "another", unsigned},
	} {
		if _, got := guard.judge(announce(c.age), c.channel, now); got != c.want {
			t.Errorf("age %v on %s: verdict %d, want %d", c.age, c.channel, got, c.want)
		}
	}
}

func TestTheMemoryOfMessagesIsBounded(t *testing.T) {
	var guard messageGuard
	for i := range int64(3 * remembered) {
		if guard.repeated(message{RuleSetID: "set", Timestamp: i}) {
			t.Fatal("a new message counts as repeated")
		}
	}
	if len(guard.seen) != remembered || len(guard.ring) != remembered {
		t.Errorf("%d and %d messages are kept", len(guard.seen), len(guard.ring))
	}
	if !guard.repeated(message{RuleSetID: "set", Timestamp: 3*remembered - 1}) {
		t.Error("the last message was forgotten")
	}
}
