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

// cache remembers tokens that were accepted, by their hashes, for a minute and
// no longer than they are good.
type cache struct {
	most int

	mu  sync.Mutex
	all map[[sha256.Size]byte]cached
}

type cached struct {
	who   *Identity
	until time.Time
}

func newCache(most int) *cache { return &cache{most: most, all: map[[sha256.Size]byte]cached{}} }

// find is who a token is about, or nil.
func (c *cache) find(sum [sha256.Size]byte, now time.Time) *Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.all[sum]; ok && now.Before(found.until) {
		return found.who
	}
	return nil
}

// add remembers a token. If there is no room any other makes way.
func (c *cache) add(sum [sha256.Size]byte, who *Identity, now, expires time.Time) {
	until := now.Add(maxTrust)
	if expires.Before(until) {
		until = expires
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.most {
		for other, found := range c.all {
			if !now.Before(found.until) {
				delete(c.all, other)
			}
		}
	}
	for other := range c.all {
		if len(c.all) < c.most {
			break
		}
		delete(c.all, other)
	}
	c.all[sum] = cached{who, until}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.all)
}
