package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Servers of two regions share limits exactly in one Redis, which is far away from one of them: only
// redis.timeout is set. After an outage of the network both decide in Redis again.
func TestServer_HomeRedisOfTwoRegions(t *testing.T) {
	const capacity = 40
	redis := testenv.StartStandalone(t, testenv.Config{})
	network := testenv.StartProxy(t, redis.Addr())
	network.SetLatency(75*time.Millisecond, 75*time.Millisecond)
	file := rulesFile(t, capacity)
	set := []string{"redis.timeout=1s", "redis.prefix=regions", "rules.file=" + file}
	near := start(t, append(set, "redis.uri=redis://"+redis.Addr())...)
	far := start(t, append(set, "redis.uri=redis://"+network.Addr())...)
	share := func(user string) {
		t.Helper()
		admitted := 0
		for i := range capacity + 10 {
			d := []*running{near, far}[i%2].check(t, user)
			if d["degraded"] == true {
				t.Fatalf("check %d: %v", i, d)
			}
			if d["allowed"] == true {
				admitted++
			}
		}
		if admitted != capacity {
			t.Errorf("%s: %d of %d admitted in both regions", user, admitted, capacity)
		}
	}
	share("ada")
	network.Refuse()
	network.Cut()
	testenv.Eventually(t, "the far server decides without Redis", func() bool {
		return far.check(t, "eve")["degraded"] == true
	})
	if err := network.Accept(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the far server decides in Redis", func() bool {
		a := far.do(t, http.MethodPost, "/v1/check", `{"userId":"eve","path":"/orders"}`)
		return a.object(t)["degraded"] != true
	})
	share("bob")
}
