package redissim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// move is a slot that moves from one server to another, key by key.
type move struct{ from, to *node }

// Move lets the slot of a shard begin to move to the next server.
func (s *Servers) Move(shard, shards int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := shard * slotCount / shards
	from := s.owner[slot]
	to := s.nodes[(from.number+1)%len(s.nodes)]
	if s.cluster && from != to && s.moving[slot] == nil {
		s.moving[slot] = &move{from, to}
	}
}

// MoveKey moves one key of a slot that moves: the first that is of a value, or else of holders, or the other way round.
// It reports whether there was one.
func (s *Servers) MoveKey(shard, shards int, holdersFirst bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := shard * slotCount / shards
	m := s.moving[slot]
	if m == nil {
		return false
	}
	values := func() bool {
		for _, key := range sorted(m.from.values) {
			if slotOf(key) == slot {
				m.to.values[key] = m.from.values[key]
				delete(m.from.values, key)
				return true
			}
		}
		return false
	}
	holders := func() bool {
		for _, key := range sorted(m.from.holders) {
			if slotOf(key) == slot {
				m.to.holders[key] = m.from.holders[key]
				delete(m.from.holders, key)
				return true
			}
		}
		return false
	}
	if holdersFirst {
		return holders() || values()
	}
	return values() || holders()
}

// Moved ends the move of a slot.
func (s *Servers) Moved(shard, shards int) {
	for s.MoveKey(shard, shards, false) { // all that are left
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := shard * slotCount / shards
	if m := s.moving[slot]; m != nil {
		s.owner[slot] = m.to
		delete(s.moving, slot)
	}
}

func sorted[V any](m map[string]V) []string {
	var all []string
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// redirect is why a server does not run a command with these keys, as getNodeByQuery of Redis has it.
func (s *Servers) redirect(n *node, keys []string, asking bool) string {
	if !s.cluster || len(keys) == 0 {
		return ""
	}
	slot, now := slotOf(keys[0]), s.now()
	there := 0
	for _, key := range keys {
		if slotOf(key) != slot {
			return "CROSSSLOT Keys in request don't hash to the same slot"
		}
		if n.has(key, now) {
			there++
		}
	}
	owner, m := s.owner[slot], s.moving[slot]
	switch {
	case owner == n && (m == nil || there == len(keys)):
		return ""
	case owner == n && there > 0:
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case owner == n:
		return fmt.Sprintf("ASK %d %s", slot, m.to.addr)
	case asking && m != nil && m.to == n:
		if len(keys) > 1 && there < len(keys) {
			return "TRYAGAIN Multiple keys request during rehashing of slot"
		}
		return ""
	}
	return fmt.Sprintf("MOVED %d %s", slot, owner.addr)
}

// has reports whether a server has a key that has not expired.
func (n *node) has(key string, now int64) bool {
	if v := n.values[key]; v != nil && v.full > now {
		return true
	}
	for _, until := range n.holders[key] {
		if until > now {
			return true
		}
	}
	return false
}

// clusterSlots answers CLUSTER SLOTS.
func (s *Servers) clusterSlots() string {
	var ranges []string
	add := func(from, to int, n *node) {
		host, port, _ := strings.Cut(n.addr, ":")
		ranges = append(ranges, fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n%s:%s\r\n%s", from, to, bulk(host), port, bulk(fmt.Sprintf("node%d", n.number))))
	}
	first := 0
	for slot := 1; slot <= slotCount; slot++ {
		if owner := s.owner[first]; slot == slotCount || s.owner[slot] != owner {
			add(first, slot-1, owner)
			first = slot
		}
	}
	return fmt.Sprintf("*%d\r\n%s", len(ranges), strings.Join(ranges, ""))
}

// slotOf is the slot of a key: CRC-16 (XMODEM) of its hash tag.
func slotOf(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for _, c := range []byte(key) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotCount
}

// Held are the requests that hold slots of a bucket set, and until when by the servers' clock in microseconds.
func (s *Servers) Held(key string) map[store.HolderID]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, now := map[store.HolderID]int64{}, s.now()
	for _, n := range s.nodes {
		for name, holders := range n.holders {
			if keyOf(name) != key {
				continue
			}
			for id, until := range holders {
				if until > now {
					held[id] = until
				}
			}
		}
	}
	return held
}

// Keys are the bucket sets that the servers have, without prefix and hash tag.
func (s *Servers) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, n := range s.nodes {
		for key := range n.values {
			all[keyOf(key)] = true
		}
		for key := range n.holders {
			all[keyOf(key)] = true
		}
	}
	return sorted(all)
}

// Used is what is used of the bands of a bucket set, in tokens, by their bands' ids.
func (s *Servers) Used(key string, bands []store.ExactBand) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for name, v := range n.values {
			if keyOf(name) == key && v.full > s.now() {
				return v.used(bands, s.now())
			}
		}
	}
	return make([]int64, len(bands))
}

// keyOf is the part of a key's name that is of its bucket set.
func keyOf(name string) string {
	_, key, _ := strings.Cut(name, "}:")
	return strings.TrimSuffix(key, holdersSuffix)
}

const holdersSuffix = ":holders"

// Advance moves the servers' clock.
func (s *Servers) Advance(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += by
}
