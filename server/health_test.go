package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	goredis "github.com/redis/go-redis/v9"
)

// However many callers ask for the health, Redis is queried once a second at most.
func TestHealth_OnceASecond(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r := start(t, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 1), "reload.strategy=POLLING")
	client := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
	defer client.Close()
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if a := r.do(t, http.MethodGet, "/v1/health", ""); a.status != http.StatusOK || a.object(t)["status"] != "up" {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	r.do(t, http.MethodGet, "/metrics", "")
	most := 1 + int(time.Since(begun)/time.Second)
	stats, err := client.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var queries int
	if _, err := fmt.Sscanf(stats["Commandstats"]["cmdstat_info"], "calls=%d,", &queries); err != nil || queries < 1 || queries > most {
		t.Errorf("200 requests in %v queried Redis %d times, want at most %d (%v)", time.Since(begun), queries, most, err)
	}
}
