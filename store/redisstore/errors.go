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

// refusal is why a server did not run a call. In all cases nothing was taken,
// and sending the call again, perhaps elsewhere, is safe.
type refusal int

const (
	ran          refusal = iota // or may have: never send again
	noScript                    // the script is not loaded
	moved                       // the slot is elsewhere
	askElsewhere                // the slot is moving and the key has moved
	tryAgain                    // the slot is moving and some of the keys have
	notNow                      // the server cannot run it at present
	notReached                  // there was no connection
)

// refusalOf classifies the error of a call.
func refusalOf(err error) refusal {
	var reply redis.Error
	if !errors.As(err, &reply) {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
			return notReached
		}
		return ran
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
	}
	// If a master becomes a replica while the script runs, a write fails inside
	// the script.
	if strings.Contains(reply.Error(), "-READONLY") {
		return notNow
	}
	return ran
}

// nothingRan reports whether an error reply that is no refusal proves that the
// script has written nothing: it fails at the first write, or was not started.
func nothingRan(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	switch word {
	case "OOM", "NOREPLICAS", "MISCONF", "NOPERM", "NOAUTH", "WRONGPASS":
		return true
	}
	return false
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
