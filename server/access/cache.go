package access

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	maxCached = 1_000
	maxTrust  = time.Minute
)

// cache holds accepted tokens, by their hashes, for a minute and not beyond their
// expiry.
type cache struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]cached
}

type cached struct {
	who   *Identity
	until time.Time
}

// find returns the identity of a token, or nil.
func (c *cache) find(sum [sha256.Size]byte, now time.Time) *Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.all[sum]; ok && now.Before(found.until) {
		return found.who
	}
	return nil
}

// add adds a token. A full cache starts over.
func (c *cache) add(sum [sha256.Size]byte, who *Identity, now, expires time.Time) {
	until := now.Add(maxTrust)
	if expires.Before(until) {
		until = expires
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxCached {
		c.all = map[[sha256.Size]byte]cached{}
	}
	c.all[sum] = cached{who, until}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = nil
}
