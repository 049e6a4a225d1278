package simulate

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
)

// entry is what one line of a log says.
type entry struct {
	req fluxgate.Request
	at  time.Time
}

// Why a line cannot be used. They are values, so that a log full of such lines costs no
// memory.
var (
	errLong    = errors.New("the line is longer than 65,536 bytes")
	errTime    = errors.New("the time is missing or cannot be read")
	errAddress = errors.New("the client address is not an IP address")
	errRequest = errors.New("there is no request line with a method and a path")
	errQuote   = errors.New("a quoted field does not end, or has an unknown escape")
	errPath    = errors.New("the path is missing")
	errCost    = errors.New("a cost is not a whole number from 0 up")
	errJSON    = errors.New("the line is not a JSON object")
)

// setHeader sets a header, whose name is canonical.
func (e *entry) setHeader(name, value string) {
	if value != "" {
		put(&e.req.Headers, name, []string{value})
	}
}

// put adds to a map that may be nil.
func put[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

// parseCost parses what a request costs.
func parseCost(value string) (int64, error) {
	cost, err := strconv.ParseInt(value, 10, 64)
	if err != nil || cost < 0 {
		return 0, errCost
	}
	return cost, nil
}

// setIP sets the client address: an address, one with a port, or the last one of a list
// as in X-Forwarded-For, which is the one that the proxy has added itself. Without an
// address the request has none.
func (e *entry) setIP(text string) error {
	if i := strings.LastIndexByte(text, ','); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if text == "" || text == "unix:" {
		return nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return errAddress
		}
		ip = withPort.Addr()
	}
	e.req.IP = ip
	return nil
}

// setRequestLine sets method and path from a line such as GET /path HTTP/1.1. A path may
// have spaces: servers log what was sent.
func (e *entry) setRequestLine(line string) error {
	method, target, _ := strings.Cut(line, " ")
	if i := strings.LastIndexByte(target, ' '); i >= 0 && strings.HasPrefix(target[i+1:], "HTTP/") {
		target = target[:i]
	}
	if method == "" || target == "" {
		return errRequest
	}
	e.req.Method, e.req.Path = method, target
	return nil
}

// dash is a field of a log without the dash that means no value.
func dash(text string) string {
	if text == "-" {
		return ""
	}
	return text
}
