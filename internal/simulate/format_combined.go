package simulate

import "strings"

// parseCombined parses the combined log format, and the common one, which is the same
// without the last two fields:
//
//	192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api HTTP/1.1" 200 512 "referer" "agent"
//
// Fields that follow are ignored.
func parseCombined(line string, e *entry, headers bool) (err error) {
	ip, rest, _ := strings.Cut(line, " ")
	// A user may contain brackets and spaces. Quotes in it are escaped, so the first of
	// these ends the time.
	end := strings.Index(rest, `] "`)
	begin := end - len(" [16/Nov/2026:15:00:00 +0000")
	if begin < 0 || rest[begin:begin+2] != " [" {
		return errTime
	}
	var ok bool
	if e.micros, ok = commonTime(rest[begin+2 : end]); !ok {
		return errTime
	}
	if err := e.setIP(ip); err != nil {
		return err
	}
	_, user, _ := strings.Cut(rest[:begin], " ")
	e.req.UserID = unescape(dash(user))
	request, rest, err := quoted(rest[end+2:])
	if err != nil {
		return err
	}
	if err := e.setRequestLine(unescape(request)); err != nil {
		return err
	}
	if len(rest) < 4 || rest[0] != ' ' || len(rest) > 4 && rest[4] != ' ' {
		return errStatus
	}
	if err := e.setStatus(rest[1:4]); err != nil || !headers {
		return err
	}
	return parseHeaders(rest[4:], e)
}

// parseHeaders parses the bytes of the response, the referer and the agent, if they are
// there.
func parseHeaders(rest string, e *entry) error {
	for _, name := range [...]string{"Referer", "User-Agent"} {
		begin := strings.Index(rest, ` "`)
		if begin < 0 {
			return nil
		}
		value, after, err := quoted(rest[begin+1:])
		if err != nil {
			return err
		}
		e.setHeader(name, unescape(dash(value)))
		rest = after
	}
	return nil
}
