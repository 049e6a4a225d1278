package client

import "time"

// Occupy waits until no requests count as under way, and then has so many that
// callers are queued until they are released.
func Occupy(c *Client) (release func()) {
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.calls > 0 {
		q.mu.Unlock()
		time.Sleep(100 * time.Microsecond)
		q.mu.Lock()
	}
	age := q.maxAge
	q.maxAge = time.Hour
	var ends []func()
	for range q.maxCalls {
		ends = append(ends, q.begin())
	}
	q.maxAge = age
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// CountUntilEnd counts requests as under way until they end, however slow the machine is.
func CountUntilEnd(c *Client) { c.queue.maxAge = time.Hour }

// Waiting is how many checks are queued.
func Waiting(c *Client) int {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return len(c.queue.waiting)
}
