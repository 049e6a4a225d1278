package redisstore

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable is wrapped by errors of servers that could not be asked, or
// did not answer. A call that was sent and not answered may have taken tokens.
var ErrUnavailable = errors.New("redis is unavailable")

// refusal is why a server did not run a call. All of them mean that nothing
// was taken, and that asking again, perhaps elsewhere, is safe.
type refusal int

const (
	ran          refusal = iota // or may have: never ask again
	noScript                    // the script is not there
	moved                       // the slot is elsewhere
	askElsewhere                // the slot is moving and the key has moved
	tryAgain                    // the slot is moving and some of the keys have
	notNow                      // the server cannot for the moment
	notReached                  // there was no connection
)

// refusalOf reads an error of a call.
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
	// A write on a replica that became one while the script ran fails inside
	// of it.
	if strings.Contains(reply.Error(), "-READONLY") {
		return notNow
	}
	return ran
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
