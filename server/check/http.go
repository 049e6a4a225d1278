package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
)

// read reads a body as JSON into asked, strictly: a field that is not known is
// a field that would not be looked at.
func (w *work) read(r *http.Request, most int64, asked any) *problem {
	if !isJSON(r.Header.Get("Content-Type")) {
		return newProblem(http.StatusUnsupportedMediaType, "The body must be application/json.")
	}
	if r.ContentLength > most {
		return tooLarge(most)
	}
	var err error
	if w.body, err = readAll(w.body[:0], r.Body, most); errors.Is(err, errTooLarge) {
		return tooLarge(most)
	}
	if err != nil {
		return badRequest("the body could not be read")
	}
	if start := bytes.TrimLeft(w.body, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return badRequest("the body must be an object") // null would be read as one that is empty
	}
	if !unambiguous(w.body) {
		return badRequest("the body has characters that are not UTF-8, or halves of them")
	}
	dec := json.NewDecoder(bytes.NewReader(w.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(asked); err != nil {
		return badRequest("%s", describe(err))
	}
	if len(bytes.TrimSpace(w.body[dec.InputOffset():])) > 0 {
		return badRequest("something stands behind the closing brace")
	}
	return nil
}

// isJSON reports whether a body that is said to be of a type is read.
func isJSON(contentType string) bool {
	if contentType == "application/json" || contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

var errTooLarge = errors.New("the body is too large")

// readAll reads a body that is not longer than most.
func readAll(b []byte, from io.Reader, most int64) ([]byte, error) {
	if cap(b) == 0 {
		b = make([]byte, 0, 1024)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > most {
			return b, errTooLarge
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// describe says what is wrong with a body without showing what stands in it:
// it may be a secret.
func describe(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%.64s: must be a %s", kind.Field, kindName(kind))
	case errors.As(err, &kind):
		return "the body must be an object"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the body ends too early"
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("the body is not JSON at byte %d", syntax.Offset)
	}
	return "the body has a field that is not known, or a value that cannot be read"
}

func kindName(err *json.UnmarshalTypeError) string {
	switch err.Type.Kind().String() {
	case "int64":
		return "whole number"
	case "bool":
		return "true or false"
	case "map", "struct":
		return "object"
	case "slice":
		return "list"
	}
	return "text"
}

// writeJSON answers. net/http adds the length of what is short.
func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(body) // the caller may have gone
}

var jsonType = []string{"application/json"}

// problem is an answer that is not a decision.
type problem struct{ httplimit.Problem }

func newProblem(status int, format string, args ...any) *problem {
	return &problem{httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}}
}

func badRequest(format string, args ...any) *problem {
	return newProblem(http.StatusBadRequest, format, args...)
}

// notTheirs is the answer to who may ask about other rule sets than the one at a
// place, or has not said which.
func notTheirs(place string) *problem {
	return newProblem(http.StatusForbidden, "%s: the caller may not ask about this rule set", place)
}

func tooLarge(most int64) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "The body can have %d bytes.", most)
}

func refused(status int, err error) *problem { return newProblem(status, "%v", err) }

func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	(&httplimit.Rejection{Problem: p.Problem}).Write(w, r)
}

// failure is the answer where there is no decision.
func (a *API) failure(r *http.Request, err error) *problem {
	if end := r.Context().Err(); end != nil && errors.Is(err, end) {
		return newProblem(httplimit.StatusClientClosedRequest, "The caller has gone.")
	}
	if errors.Is(err, fluxgate.ErrCost) {
		return badRequest("cost: cannot be negative")
	}
	a.config.Failed(r, err)
	if errors.Is(err, context.DeadlineExceeded) {
		return newProblem(http.StatusServiceUnavailable, "The request could not be decided in time.")
	}
	if errors.Is(err, fluxgate.ErrTooManyRules) {
		return newProblem(http.StatusInternalServerError, "More than %d rules apply to the request.", fluxgate.MaxMatches)
	}
	return newProblem(http.StatusInternalServerError, "The request could not be decided.")
}
