package server_test

import (
	"net/http"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// key is the key of the bucket of one user, as explain shows it.
func (r *running) key(t testing.TB) string {
	t.Helper()
	a := r.do(t, http.MethodPost, r.adminURL()+"/v1/rule-sets/api-limits/explain", `{"userId":"ada"}`)
	rules, _ := a.object(t)["rules"].([]any)
	for _, rule := range rules {
		if key, _ := rule.(map[string]any)["key"].(string); key != "" {
			return key
		}
	}
	t.Fatalf("explain shows no key: %d %s", a.status, a.body)
	return ""
}

// While Redis has been away since the start, each server has random keys, so
// that no caller can compute which shard of the local store it falls into. When
// Redis is there, all servers have the keys of its salt, which they share.
func TestSalt_RedisAwaySinceTheStart(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, redis.Addr())
	proxy.Refuse()
	settings := []string{"redis.uri=redis://" + proxy.Addr(), "rules.file=" + rulesFile(t, 3), "reload.strategy=POLLING"}
	one, other := start(t, settings...), start(t, settings...)
	away := one.key(t)
	if away == other.key(t) {
		t.Errorf("two servers without Redis have the same key %s: it can be computed", away)
	}
	if again := one.key(t); again != away {
		t.Errorf("the key changed from %s to %s: nothing would be limited", away, again)
	}
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*running{one, other} {
		testenv.Eventually(t, "Redis decides", func() bool { return r.check(t, "bob")["degraded"] == nil })
	}
	there := one.key(t)
	if there == away || there != other.key(t) {
		t.Errorf("with Redis the servers have the keys %s and %s; without it was %s", there, other.key(t), away)
	}
}
