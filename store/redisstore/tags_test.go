package redisstore

import (
	"slices"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Tags fall into evenly spread slots.
func TestTags_Slots(t *testing.T) {
	// As redis-cli --cluster create assigns them.
	first := []int{0, 5461, 10923}
	for _, n := range []int{1, 2, 3, 7, 64, 100, 1_000, maxShards} {
		tags := tagsFor(n)
		seen := map[string]bool{}
		load := make([]int, len(first))
		for i, tag := range tags {
			if seen[tag] {
				t.Fatalf("%d shards: tag %q twice", n, tag)
			}
			seen[tag] = true
			slot := testenv.Slot("fluxgate:{" + tag + "}:key") // the cluster's own definition
			if want := i * slotCount / n; slot != want {
				t.Fatalf("%d shards: tag %q of shard %d falls into slot %d, not %d", n, tag, i, slot, want)
			}
			for m := len(first) - 1; ; m-- {
				if slot >= first[m] {
					load[m]++
					break
				}
			}
		}
		most, least := slices.Max(load), slices.Min(load)
		t.Logf("%d shards on 3 masters: %v, the fullest %.2f times the mean", n, load, float64(3*most)/float64(n))
		if most-least > 2 {
			t.Errorf("%d shards on 3 masters: %v", n, load)
		}
	}
}
