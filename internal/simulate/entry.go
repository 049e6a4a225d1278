package simulate

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// entry is what one line of a log says.
type entry struct {
	req    fluxgate.Request
	micros int64 // since 1970
	status int   // of the logged response, or 0
}

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

// setCost sets what the request costs, in requests if the measure is empty.
func (e *entry) setCost(measure, value string) error {
	cost, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || cost < 0 || measure == rules.MeasureRequests:
		return errCost
	case measure == "":
		e.req.Cost = cost
	default:
		put(&e.req.Costs, measure, cost)
	}
	return nil
}

// Why a line cannot be used. They are values, so that a log full of such lines costs no
// memory.
var (
	errEmpty   = errors.New("the line is empty")
	errLong    = errors.New("the line is longer than 65,536 bytes")
	errTime    = errors.New("the time is missing or cannot be read")
	errAddress = errors.New("the client address is not an IP address")
	errRequest = errors.New("there is no request line with a method and a path")
	errStatus  = errors.New("the status is missing or not a number")
	errQuote   = errors.New("a quoted field does not end")
	errFields  = errors.New("the line does not have the fields of the format")
	errPath    = errors.New("the path is missing")
	errCost    = errors.New("a cost is not a whole number from 0 up")
	errJSON    = errors.New("the line is not a JSON object")
)

// setIP sets the client address: an address, one with a port, or the last one of a list
// as in X-Forwarded-For, which is the one that the proxy has added itself. Without an
// address the request has none.
func (e *entry) setIP(text string) error {
	if i := strings.LastIndexByte(text, ','); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if text == "" || text == "-" || text == "unix:" {
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
	method, target, ok := strings.Cut(line, " ")
	if !ok || method == "" {
		return errRequest
	}
	if i := strings.LastIndexByte(target, ' '); i >= 0 && strings.HasPrefix(target[i+1:], "HTTP/") {
		target = target[:i]
	}
	e.req.Method = method
	return e.setTarget(target)
}

// setTarget sets the path, and the host where the target is an absolute URL, as servers
// do.
func (e *entry) setTarget(target string) error {
	if target == "" {
		return errRequest
	}
	if target[0] != '/' {
		if _, rest, ok := strings.Cut(target, "://"); ok {
			end := strings.IndexAny(rest, "/?")
			if end < 0 {
				end = len(rest)
			}
			e.req.Host, target = rest[:end], rest[end:]
			if !strings.HasPrefix(target, "/") {
				target = "/" + target
			}
		}
	}
	e.req.Path = target
	return nil
}

// setStatus sets the status of the response, three digits.
func (e *entry) setStatus(text string) error {
	status, err := strconv.ParseUint(text, 10, 16)
	if err != nil || len(text) != 3 {
		return errStatus
	}
	e.status = int(status)
	return nil
}

// dash is a field of a log without the dash that means no value.
func dash(text string) string {
	if text == "-" {
		return ""
	}
	return text
}
