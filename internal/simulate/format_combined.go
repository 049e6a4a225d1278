package simulate

import (
	"strconv"
	"strings"
	"time"
)

// parseCombined parses the combined log format, and the common one, which is the same
// without the last two fields:
//
//	192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api HTTP/1.1" 200 512 "referer" "agent"
//
// Fields that follow are ignored.
func parseCombined(line string, e *entry) error {
	ip, rest, _ := strings.Cut(line, " ")
	// A user may contain brackets and spaces. Quotes in it are escaped, so the first of
	// these ends the time.
	end := strings.Index(rest, `] "`)
	begin := end - len(" [16/Nov/2026:15:00:00 +0000")
	if begin < 0 || rest[begin:begin+2] != " [" {
		return errTime
	}
	at, err := time.Parse(commonLayout, rest[begin+2:end])
	if err != nil || e.setAt(at) != nil {
		return errTime
	}
	if err := e.setIP(dash(ip)); err != nil {
		return err
	}
	_, user, _ := strings.Cut(rest[:begin], " ")
	if user, _, err = quoted(`"` + user + `"`); err != nil {
		return err
	}
	e.req.UserID = dash(user)
	request, rest, err := quoted(rest[end+2:])
	if err != nil {
		return err
	}
	if err := e.setRequestLine(request); err != nil {
		return err
	}
	for _, name := range [...]string{"Referer", "User-Agent"} {
		begin := strings.IndexByte(rest, '"')
		if begin < 0 {
			return nil
		}
		var value string
		if value, rest, err = quoted(rest[begin:]); err != nil {
			return err
		}
		e.setHeader(name, dash(value))
	}
	return nil
}

// quoted cuts the quoted field off the beginning of a text. nginx (\x22) and Apache (\" \\ \t
// \xhh) escape characters as Go does.
func quoted(s string) (value, rest string, err error) {
	field, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", errQuote
	}
	value, err = strconv.Unquote(field)
	return value, s[len(field):], err
}
