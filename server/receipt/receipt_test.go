package receipt_test

import (
	"encoding/base64"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/store"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func sample(t testing.TB) *fluxgate.Receipt {
	t.Helper()
	bands := []store.ExactBand{
		fluxgate.Must(rules.Band{Label: "a", Capacity: 100, Refill: time.Minute}.Exact(0)),
		fluxgate.Must(rules.Band{Capacity: 9, RefillTokens: 2, Refill: 366 * 24 * time.Hour}.Exact(1)),
		fluxgate.Must(rules.Band{Kind: rules.Quota, Capacity: 9, Period: "month"}.Exact(2)),
		fluxgate.Must(rules.Band{Label: "w", Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Minute}.Exact(3)),
	}
	bands[2].Edges = [3]int64{1_700_000_000_000_000, 1_700_000_001_000_000, 1_700_000_009_000_000}
	return &fluxgate.Receipt{Takes: []store.Taken{
		{Key: store.Key{RuleSet: "set", Rule: "rule", ID: store.KeyID{1, 2, 3}}, Bands: bands, Cost: 7, At: 1_700_000_000_000_123, Due: []int64{5, 1 << 50, 1_700_000_001_000_000, 5}},
		{Key: store.Key{RuleSet: "set", Rule: "other", ID: store.KeyID{255}}, Bands: bands[:1], Cost: 1, Source: store.FromFallback, At: 9},
	}}
}

func issuer(t testing.TB, config receipt.Config) *receipt.Issuer {
	t.Helper()
	o, err := receipt.NewIssuer(config)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var shared = []byte("a secret of servers that share")

// Redeem returns the receipt that was issued.
func TestRedeem_RoundTrip(t *testing.T) {
	o, want := issuer(t, receipt.Config{}), sample(t)
	got, err := o.Redeem(t.Context(), o.Issue(want))
	if err != nil || !reflect.DeepEqual(got.Takes, want.Takes) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	if o.Issue(nil) != "" || o.Issue(&fluxgate.Receipt{}) != "" {
		t.Error("there is a token without a take")
	}
}

// The receipt of a decision that another server made keeps its token. Without
// one its caller would settle nothing without an error.
func TestIssue_ReceiptOfAnotherServer(t *testing.T) {
	here, there := issuer(t, receipt.Config{}), issuer(t, receipt.Config{})
	token := there.Issue(sample(t))
	if got := here.Issue(&fluxgate.Receipt{Token: token}); got != token {
		t.Errorf("issued %q, want the token of the other server", got)
	}
	if _, err := here.Redeem(t.Context(), token); !errors.Is(err, receipt.ErrRefused) {
		t.Errorf("redeemed here: %v, want %v", err, receipt.ErrRefused)
	}
}

// A changed receipt, or one with another secret, is refused.
func TestRedeem_Forged(t *testing.T) {
	o := issuer(t, receipt.Config{Secret: shared})
	token := o.Issue(sample(t))
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		if _, err := o.Redeem(t.Context(), base64.RawURLEncoding.EncodeToString(changed)); !errors.Is(err, receipt.ErrForged) {
			t.Fatalf("byte %d of %d changed: %v", i, len(raw), err)
		}
	}
	for _, bad := range []string{"", "x", token[:len(token)-1], token + "A", token + "=", " " + token, token[1:], string(make([]byte, 1<<20))} {
		if _, err := o.Redeem(t.Context(), bad); !errors.Is(err, receipt.ErrForged) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	for name, other := range map[string]*receipt.Issuer{
		"another secret":   issuer(t, receipt.Config{Secret: []byte("another secret altogether")}),
		"one of its own":   issuer(t, receipt.Config{}),
		"another's random": issuer(t, receipt.Config{}),
	} {
		if _, err := other.Redeem(t.Context(), token); !errors.Is(err, receipt.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := o.Redeem(t.Context(), token); err != nil {
		t.Errorf("the valid one: %v", err)
	}
}

// A receipt is refused after its TTL, and before it was issued.
func TestRedeem_Expired(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond) // as receipts are dated
	o := issuer(t, receipt.Config{TTL: time.Minute, Now: func() time.Time { return now }})
	fresh, old := o.Issue(sample(t)), o.Issue(sample(t))
	now = now.Add(time.Minute)
	if _, err := o.Redeem(t.Context(), fresh); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Second)
	if _, err := o.Redeem(t.Context(), old); !errors.Is(err, receipt.ErrExpired) {
		t.Errorf("a minute and a second old: %v", err)
	}
	ahead := o.Issue(sample(t))
	now = now.Add(-2 * time.Minute)
	if _, err := o.Redeem(t.Context(), ahead); !errors.Is(err, receipt.ErrExpired) {
		t.Errorf("two minutes ahead: %v", err)
	}
}

// Concurrent callers redeem a receipt once, also at two servers that share a
// Redis.
func TestRedeem_Once(t *testing.T) {
	server := testenv.SharedStandalone(t)
	ledgers := map[string]func() receipt.Ledger{
		"memory": func() func() receipt.Ledger {
			one := receipt.NewMemory(time.Now)
			return func() receipt.Ledger { return one }
		}(),
		"redis": func() receipt.Ledger {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			return receipt.NewShared(client, "receipts")
		},
	}
	for name, ledger := range ledgers {
		t.Run(name, func(t *testing.T) {
			issuers := []*receipt.Issuer{
				issuer(t, receipt.Config{Secret: shared, Ledger: ledger()}), issuer(t, receipt.Config{Secret: shared, Ledger: ledger()}),
			}
			for range 50 {
				token := issuers[0].Issue(sample(t))
				var good, spent atomic.Int64
				var all sync.WaitGroup
				for caller := range 8 {
					all.Go(func() {
						switch _, err := issuers[caller%2].Redeem(t.Context(), token); {
						case err == nil:
							good.Add(1)
						case errors.Is(err, receipt.ErrSpent):
							spent.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				if good.Load() != 1 || spent.Load() != 7 {
					t.Fatalf("%d accepted, %d refused", good.Load(), spent.Load())
				}
			}
		})
	}
}

// If the reply of Redis is lost and the client repeats the command, the receipt is
// not taken for one that was spent before.
func TestShared_LostReply(t *testing.T) {
	server := testenv.SharedStandalone(t)
	proxy := testenv.StartProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: 20, MinRetryBackoff: 100 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	id := receipt.ID{1, 2, 3}
	proxy.TruncateReplies(true)
	var healing sync.WaitGroup
	healing.Go(func() {
		testenv.Eventually(t, "the command has arrived", func() bool {
			keys, err := server.Do(t.Context(), "KEYS", "lost:*")
			return err == nil && len(keys.([]any)) == 1
		})
		proxy.TruncateReplies(false)
	})
	ledger := receipt.NewShared(client, "lost")
	if fresh, err := ledger.Spend(t.Context(), id, "api", "a call", time.Minute); !fresh || err != nil {
		t.Errorf("spent for the first time: %t, %v", fresh, err)
	}
	healing.Wait()
	if fresh, err := ledger.Spend(t.Context(), id, "api", "another call", time.Minute); fresh || err != nil {
		t.Errorf("spent for the second time: %t, %v", fresh, err)
	}
	if fresh, err := ledger.Spend(t.Context(), id, "api", "a call", time.Minute); !fresh || err != nil {
		t.Errorf("the first call, made again: %t, %v", fresh, err)
	}
}

// Memory removes expired receipts.
func TestMemory_Expiry(t *testing.T) {
	now := time.Now()
	m := receipt.NewMemory(func() time.Time { return now })
	for i := range 1_000 {
		if fresh, err := m.Spend(t.Context(), receipt.ID{byte(i), byte(i >> 8)}, "api", "a call", 1_000*time.Second); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(499*time.Second + time.Millisecond)
	if fresh, _ := m.Spend(t.Context(), receipt.ID{byte(999 & 255), 999 >> 8}, "api", "a call", 1_000*time.Second); fresh {
		t.Error("a valid receipt was removed")
	}
	if n := receipt.Remembered(m); n != 500 {
		t.Errorf("%d are remembered", n)
	}
}

// A rule set that has settled as much as it may keeps no other from settling, and can settle
// again when receipts expire.
func TestMemory_FullByRuleSet(t *testing.T) {
	now := time.Now()
	m := receipt.NewMemory(func() time.Time { return now })
	spent := uint32(0)
	fill := func(ruleSet string) (n int) {
		for ; ; n++ {
			spent++
			id := receipt.ID{byte(spent), byte(spent >> 8), byte(spent >> 16)}
			if fresh, err := m.Spend(t.Context(), id, ruleSet, "a call", time.Hour); errors.Is(err, receipt.ErrFull) {
				return n
			} else if !fresh || err != nil {
				t.Fatal(fresh, err)
			}
		}
	}
	for _, c := range []struct {
		ruleSet string
		want    int
	}{{"one", 500_000}, {"two", 250_000}, {"three", 125_000}, {"one", 0}, {"four", 62_500}} {
		if got := fill(c.ruleSet); got != c.want {
			t.Errorf("%s can settle %d, want %d", c.ruleSet, got, c.want)
		}
	}
	now = now.Add(time.Hour + time.Second)
	if got := fill("one"); got != 500_000 {
		t.Errorf("after an hour it can settle %d", got)
	}
}

func FuzzRedeem(f *testing.F) {
	o := issuer(f, receipt.Config{Secret: shared})
	f.Add(o.Issue(sample(f)))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := issuer(t, receipt.Config{}).Redeem(t.Context(), token); !errors.Is(err, receipt.ErrForged) {
			t.Fatal(err)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add(receipt.Encode(sample(f)))
	f.Add(receipt.Encode(priced(f)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if r, err := receipt.Decode(payload); (r == nil) != (err != nil) {
			t.Fatal(r, err)
		}
	})
}

// The share of a slow limit may regain a token in more than the longest period of a rule. Its
// receipts are readable by every version.
func TestRedeem_SlowShare(t *testing.T) {
	band, err := rules.Band{Label: "b", Capacity: 5, Refill: 366 * 24 * time.Hour}.Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	want := sample(t)
	want.Takes[0].Bands, want.Takes[0].Due = []store.ExactBand{band.Share(bucket.OneOf(20))}, nil
	if period := want.Takes[0].Bands[0].Period; period != 4*366*24*time.Hour {
		t.Fatalf("a token in %v, want one in four years", period)
	}
	o := issuer(t, receipt.Config{})
	got, err := o.Redeem(t.Context(), o.Issue(want))
	if err != nil || got.Takes[0].Cost != want.Takes[0].Cost || got.Takes[0].Bands[0].Capacity != 1 {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
}
