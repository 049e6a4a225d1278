package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The buckets of all users: at least the 400 a minute for which the promises about
// outages hold.
const (
	Capacity = 100
	Rate     = 10 // tokens a second
)

// Load is what callers send. The zero value is 64 callers with 2,000 requests a
// second.
type Load struct {
	// Callers send one request after the other. 0 means 64.
	Callers int
	// PerSecond is the rate of all callers together. 0 means 2,000, and below 0 that
	// a caller sends its next request as soon as it has an answer.
	PerSecond int
}

// Of all callers the first ones stay within their limit and have a user each. The
// others exceed it, and several have one user.
const (
	steadyCallers  = 4
	steadyRate     = Rate / 2 // requests a second of each
	callersPerUser = 4
)

func (l Load) withDefaults() Load {
	if l.Callers == 0 {
		l.Callers = 64
	}
	if l.PerSecond == 0 {
		l.PerSecond = 2_000
	}
	return l
}

// users returns how many users there are; the first are the steady ones.
func (l Load) users() int {
	return steadyCallers + (l.Callers-steadyCallers+callersPerUser-1)/callersPerUser
}

func userOf(caller int) int {
	if caller < steadyCallers {
		return caller
	}
	return steadyCallers + (caller-steadyCallers)/callersPerUser
}

func userName(user int) string { return fmt.Sprintf("%s-%d", limitsOf(user).name, user) }

// interval is the time between two requests of a caller.
func (l Load) interval(caller int) time.Duration {
	switch {
	case caller < steadyCallers:
		return time.Second / steadyRate
	case l.PerSecond < 0:
		return 0
	}
	others := l.PerSecond - steadyCallers*steadyRate
	return time.Second * time.Duration(l.Callers-steadyCallers) / time.Duration(max(1, others))
}

// requestTimeout bounds a request far above every deadline, so that a path that
// never answers ends the run too.
const requestTimeout = 10 * time.Second

// send sends the requests of all callers until ctx ends.
func (l Load) send(ctx context.Context, path Path, into *ledger) {
	var callers sync.WaitGroup
	for caller := range l.Callers {
		callers.Go(func() { l.call(ctx, path, into, caller) })
	}
	callers.Wait()
}

// call sends the requests of one caller at its interval. A caller that waits for an
// answer sends nothing, and does not make up for it.
func (l Load) call(ctx context.Context, path Path, into *ledger, caller int) {
	interval := l.interval(caller)
	user := userOf(caller)
	name := userName(user)
	next := into.start.Add(interval * time.Duration(caller) / time.Duration(l.Callers))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		early := time.Until(next)
		timer.Reset(early)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		sent, late := time.Now(), time.Duration(0)
		if early > 0 {
			late = sent.Sub(next) // the machine is busy
		}
		// Not the context of the load: a request in flight at the end has an answer.
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		answer := path.Send(one, caller, name)
		cancel()
		if !into.record(caller, user, sent, late, &answer) {
			return
		}
		next = next.Add(interval)
		if late := time.Since(next); late > 0 {
			next = next.Add(late)
		}
	}
}
