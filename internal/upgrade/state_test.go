package upgrade_test

import (
	"context"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A quota that was used up before servers went back to the former version stays used up.
func TestUpgrade_SpentQuota(t *testing.T) {
	t.Parallel()
	before, now := programs(t)
	f := newFleet(t, testenv.StartStandalone(t, testenv.Config{}).URI())
	current := f.start("current", now)
	f.spend(current)
	f.use(current)
	f.replace(0, f.start("former", before))
	if a := f.check(f.servers()[0]); a.Allowed || a.Degraded {
		t.Errorf("the former version admits more than a quota that is used up: %+v", a)
	}
	f.replace(0, f.start("current", now))
	if a := f.check(f.servers()[0]); a.Allowed || a.Degraded {
		t.Errorf("the current version admits more than a quota that is used up: %+v", a)
	}
}

// State that a server cannot read, of a later version or with a kind of limit that only a later one
// knows, stays as it is. Each server limits its callers alone, by what it knows of the bucket,
// and health, the fleet and doctor say so.
func TestUpgrade_UnreadableState(t *testing.T) {
	t.Parallel()
	_, now := programs(t)
	for name, change := range map[string]func(value []byte){
		"version": func(value []byte) { value[0]++ },
		"kind": func(value []byte) {
			tag := binary.LittleEndian.Uint32(value[8:])
			binary.LittleEndian.PutUint32(value[8:], tag&0x00ffffff|9<<24)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := testenv.StartStandalone(t, testenv.Config{})
			f := newFleet(t, shared.URI())
			s := f.start("current", now)
			f.spend(s)
			client := redis.NewClient(&redis.Options{Addr: shared.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			key, value := bucketOf(t, client)
			change(value)
			if err := client.Set(t.Context(), key, value, redis.KeepTTL).Err(); err != nil {
				t.Fatal(err)
			}
			if a := f.check(s); a.Allowed || !a.Degraded {
				t.Errorf("a bucket that cannot be read: %+v, want a rejection by what the server knows of it", a)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = f.start("current", now)
			if a := f.check(s); !a.Allowed || !a.Degraded {
				t.Errorf("a bucket that a server knows nothing of: %+v, want a decision by its own bucket", a)
			}
			if got, _ := client.Get(t.Context(), key).Bytes(); string(got) != string(value) {
				t.Errorf("the state was changed to %x from %x", got, value)
			}
			f.wantUnreadable(s)
		})
	}
}

// wantUnreadable checks where an operator sees that state cannot be read.
func (f *fleet) wantUnreadable(s *server) {
	f.t.Helper()
	const reason = "that this process cannot read"
	var health struct {
		Status string
		Store  struct{ Error string }
	}
	if err := f.get(s, "/v1/health", &health); err != nil || health.Status != "degraded" || !strings.Contains(health.Store.Error, reason) {
		f.t.Errorf("health is %+v (%v)", health, err)
	}
	testenv.Eventually(f.t, "the fleet shows it", func() bool {
		var found struct {
			Servers []struct{ Status, Reason string }
		}
		err := f.get(s, "/v1/fleet", &found)
		return err == nil && len(found.Servers) == 1 && found.Servers[0].Status == "degraded" && strings.Contains(found.Servers[0].Reason, reason)
	})
	f.wantDoctor("is degraded: redis is unavailable: a bucket has state of version")
}

// wantDoctor waits until fluxgate doctor says something of the fleet.
func (f *fleet) wantDoctor(says string) {
	f.t.Helper()
	testenv.Eventually(f.t, "doctor says that a server "+says, func() bool {
		args := []string{"doctor"}
		for _, setting := range f.settings {
			args = append(args, "--set", setting)
		}
		output, _ := exec.CommandContext(f.t.Context(), testenv.Fluxgate(f.t), args...).CombinedOutput()
		return strings.Contains(string(output), says)
	})
}

// spend uses up the quota of a caller.
func (f *fleet) spend(s *server) {
	f.t.Helper()
	if a := f.check(s, 100_000_000); !a.Allowed {
		f.t.Fatalf("the quota is not full: %+v", a)
	}
	if a := f.check(s); a.Allowed {
		f.t.Fatalf("the quota is not used up: %+v", a)
	}
}

// check sends a request of a cost, or 1, under the quota.
func (f *fleet) check(s *server, cost ...int64) (a answer) {
	f.t.Helper()
	body := map[string]any{"userId": "ada", "method": "GET", "path": "/quota", "cost": append(cost, 1)[0]}
	if err := f.post(f.t.Context(), s, "/v1/check", body, &a); err != nil {
		f.t.Fatal(err)
	}
	return a
}

// bucketOf returns the only bucket in Redis.
func bucketOf(t *testing.T, client *redis.Client) (key string, value []byte) {
	t.Helper()
	all := client.Scan(t.Context(), 0, "*", 1_000).Iterator()
	for all.Next(context.Background()) {
		found, err := client.Get(t.Context(), all.Val()).Bytes()
		// A quota is its version, its time, and one record of 32 bytes.
		if err == nil && len(found) == 8+32 {
			if key != "" {
				t.Fatalf("%q and %q look like buckets", key, all.Val())
			}
			key, value = all.Val(), found
		}
	}
	if key == "" {
		t.Fatal("there is no bucket")
	}
	return key, value
}
