package simulate

import "strings"

// parseEnvoy parses Envoy's default format:
//
//	[2026-11-16T15:00:00.310Z] "GET /api HTTP/2" 200 - 154 0 226 100 "192.0.2.7" "agent" "request id" "host" "upstream"
//
// Envoy does not escape quotes in what a caller sends. So there are exactly the fields of
// the format in a line, or it is refused: otherwise a caller could write fields.
func parseEnvoy(line string, e *entry, headers bool) error {
	begin, rest, _ := strings.Cut(line, `] "`)
	begin, ok := strings.CutPrefix(begin, "[")
	if !ok {
		return errTime
	}
	if e.micros, ok = isoTime(begin); !ok {
		return errTime
	}
	request, rest, ok := strings.Cut(rest, `" `)
	if !ok {
		return errQuote
	}
	if err := e.setRequestLine(request); err != nil {
		return err
	}
	status, rest, _ := strings.Cut(rest, " ")
	if status == "0" { // the connection ended before there was a response
		status = "000"
	}
	if err := e.setStatus(status); err != nil {
		return err
	}
	for range 5 { // flags, bytes received and sent, duration, upstream time
		var field string
		if field, rest, ok = strings.Cut(rest, " "); !ok || strings.Contains(field, `"`) {
			return errFields
		}
	}
	var fields [5]string
	for i := range fields {
		if i > 0 {
			if rest, ok = strings.CutPrefix(rest, " "); !ok {
				return errFields
			}
		}
		if rest, ok = strings.CutPrefix(rest, `"`); !ok {
			return errFields
		}
		if fields[i], rest, ok = strings.Cut(rest, `"`); !ok {
			return errQuote
		}
	}
	if rest != "" {
		return errFields
	}
	return e.setEnvoy(fields, headers)
}

// setEnvoy sets what the quoted fields say.
func (e *entry) setEnvoy(fields [5]string, headers bool) error {
	if host := dash(fields[3]); host != "" {
		e.req.Host = host
	}
	if headers {
		e.setHeader("X-Forwarded-For", dash(fields[0]))
		e.setHeader("User-Agent", dash(fields[1]))
		e.setHeader("X-Request-Id", dash(fields[2]))
	}
	return e.setIP(fields[0])
}
