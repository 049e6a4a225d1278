package redisstore

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped by errors about servers that could not be reached
// or did not answer. A call that was sent and not answered may have taken
// tokens.
var ErrUnavailable = errors.New("redis is unavailable")

// callResult is what the error of a call says of it. Unless the call may have run, nothing was
// taken, and sending it again, perhaps elsewhere, is safe.
type callResult int

const (
	mayHaveRun   callResult = iota // never send it again
	refused                        // not started, or ended at the first write. It would be again
	noScript                       // the script is not loaded
	moved                          // the slot is elsewhere
	askElsewhere                   // the slot is moving and the key has moved
	tryAgain                       // the slot is moving and some of the keys have
	notNow                         // the server cannot run it at present
	notReached                     // there was no connection
)

// resultOf classifies the error of a call.
func resultOf(err error) callResult {
	if err == nil {
		return mayHaveRun
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
			return notReached
		}
		return mayHaveRun
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	switch word {
	case "NOSCRIPT":
		return noScript
	case "MOVED":
		return moved
	case "ASK":
		return askElsewhere
	case "TRYAGAIN":
		return tryAgain
	case "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY":
		return notNow
	case "OOM", "NOREPLICAS", "MISCONF", "NOPERM", "NOAUTH", "WRONGPASS":
		return refused
	}
	// If a master becomes a replica while the script runs, a write fails inside
	// the script.
	if strings.Contains(reply.Error(), "-READONLY") {
		return notNow
	}
	return mayHaveRun
}

// redirect is the address in a MOVED or ASK reply of the node at from. One
// without a host means the same host.
func redirect(err error, from string) string {
	fields := strings.Fields(err.Error())
	if len(fields) < 3 {
		return ""
	}
	return withHost(fields[2], from)
}
