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
	"net/netip"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/strictjson"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/slots"
)

// read decodes the JSON body of a request. Unknown fields are errors, since they
// would have no effect.
func (a *API) read(s *scratch, r *http.Request, most int64, asked any) *problem {
	if !isJSON(r.Header.Get("Content-Type")) {
		return newProblem(http.StatusUnsupportedMediaType, "The body must be application/json.")
	}
	if r.ContentLength > most {
		return tooLarge(most)
	}
	err := error(nil)
	if r.ContentLength > smallBody {
		err = a.takeSlot(s, r)
	}
	if err == nil {
		err = a.readBody(s, r, most)
	}
	if err == nil && s.free != nil {
		var decoded func()
		if decoded, err = a.decoding.Take(r.Context(), callerName(r)); err == nil {
			defer func() {
				decoded()
				s.freeLarge()
			}()
		}
	}
	if _, ok := asked.(*batchBody); ok && err == nil {
		err = a.takeBatchSlot(s, r)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge(most)
	case errors.Is(err, slots.ErrFull):
		p := newProblem(http.StatusServiceUnavailable, "The server is busy with other large requests or batches, "+
			"perhaps of the same caller. No tokens were taken: try again.")
		p.retryAfter = "1"
		return p
	case err != nil:
		return badRequest("cannot read the body")
	}
	return decode(s, asked)
}

// decode decodes a body.
func decode(s *scratch, asked any) *problem {
	if start := bytes.TrimLeft(s.body.Bytes(), " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return badRequest("the body must be an object") // null would decode as an empty one
	}
	if !unambiguous(s.body.Bytes()) {
		return badRequest("the body contains invalid UTF-8 or unpaired surrogates")
	}
	dec := json.NewDecoder(bytes.NewReader(s.body.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(asked); err != nil {
		return badRequest("%s", describe(err))
	}
	if len(bytes.TrimSpace(s.body.Bytes()[dec.InputOffset():])) > 0 {
		return badRequest("unexpected data after the JSON value")
	}
	if err := strictjson.Repeats(s.body.Bytes()); err != nil {
		return badRequest("%s", err) // one of the values would be ignored
	}
	return nil
}

// isJSON reports whether a content type is accepted.
func isJSON(contentType string) bool {
	if contentType == "application/json" || contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

var errTooLarge = errors.New("the body is too large")

// smallBody is how many bytes of a body are read without a slot: less than a
// header may have.
const smallBody = 16 << 10

// readBody reads a body of at most so many bytes.
func (a *API) readBody(s *scratch, r *http.Request, most int64) error {
	s.limited = io.LimitedReader{R: r.Body, N: smallBody}
	_, err := s.body.ReadFrom(&s.limited)
	if err == nil && s.limited.N == 0 {
		if s.free == nil {
			err = a.takeSlot(s, r)
		}
		if s.limited.N = most + 1 - int64(s.body.Len()); err == nil {
			_, err = s.body.ReadFrom(&s.limited)
		}
	}
	if err == nil && int64(s.body.Len()) > most {
		return errTooLarge
	}
	return err
}

// takeSlot takes a slot for the large body of a request.
func (a *API) takeSlot(s *scratch, r *http.Request) (err error) {
	s.free, err = a.slots.Take(r.Context(), callerName(r))
	return err
}

// callerName returns the name of a caller, or the network of its address if it has
// none.
func callerName(r *http.Request) string {
	if who := access.From(r.Context()); who != nil && who.Name != access.Anonymous {
		return who.Name
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	addr := peer.Addr().Unmap()
	if network, err := addr.Prefix(64); err == nil && addr.Is6() {
		return network.String()
	}
	return addr.String()
}

// describe returns what is wrong with a body, without values, which may be secrets.
func describe(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%.64s: must be %s", kind.Field, kindName(kind))
	case errors.As(err, &kind):
		return "the body must be an object"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the body is incomplete"
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("the body is not JSON at byte %d", syntax.Offset)
	}
	// encoding/json has no type for this error.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name := strings.Trim(quoted, `"`); isFieldName(name) {
			return fmt.Sprintf("unknown field %q", name)
		}
		return "the body has an unknown field; its name is not shown because it may be a secret"
	}
	return "the body has an invalid value"
}

// isFieldName reports whether a name looks like that of a field: letters and
// underscores. Keys and tokens have digits.
func isFieldName(name string) bool {
	for _, c := range []byte(name) {
		if letter := 'a' <= c|0x20 && c|0x20 <= 'z'; !letter && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 32
}

func kindName(err *json.UnmarshalTypeError) string {
	switch err.Type.Kind().String() {
	case "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "map", "struct":
		return "an object"
	case "slice":
		return "a list"
	}
	return "a string"
}

// writeJSON answers with JSON. net/http adds the length of a short answer.
func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(body) // the caller may have gone
}

var jsonType = []string{"application/json"}

// problem is an answer that is not a decision.
type problem struct {
	httplimit.Problem
	retryAfter string // in seconds, or empty
}

func newProblem(status int, format string, args ...any) *problem {
	return &problem{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}}
}

func badRequest(format string, args ...any) *problem {
	return newProblem(http.StatusBadRequest, format, args...)
}

// forbidden is the answer to a caller without the role check on the rule set in
// the field place.
func forbidden(place string) *problem {
	return newProblem(http.StatusForbidden, "%s: the caller does not have the role check on this rule set", place)
}

func tooLarge(most int64) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "The body must have at most %d bytes.", most)
}

func refused(status int, err error) *problem { return newProblem(status, "%v", err) }

func (p *problem) write(w http.ResponseWriter, r *http.Request) {
	if p.retryAfter != "" {
		w.Header().Set("Retry-After", p.retryAfter)
	}
	(&httplimit.Rejection{Problem: p.Problem}).Write(w, r)
}

func callerLeft() *problem {
	return newProblem(httplimit.StatusClientClosedRequest, "The caller disconnected.")
}

// failure returns the answer without a decision.
func (a *API) failure(r *http.Request, req *fluxgate.Request, err error) *problem {
	if end := r.Context().Err(); end != nil && errors.Is(err, end) {
		return callerLeft()
	}
	if errors.Is(err, fluxgate.ErrNoRuleSet) {
		return a.unknownRuleSet(access.From(r.Context()), req.RuleSet)
	}
	if errors.Is(err, fluxgate.ErrRulesLoading) {
		p := newProblem(http.StatusServiceUnavailable, "ruleSet: the rule set is not loaded yet")
		p.retryAfter = "1"
		return p
	}
	if errors.Is(err, fluxgate.ErrCost) {
		return badRequest("cost, costs and estimate: cannot be negative")
	}
	a.config.Failed(r, err)
	if errors.Is(err, context.DeadlineExceeded) {
		return newProblem(http.StatusServiceUnavailable, "The request was not decided in time.")
	}
	return newProblem(http.StatusInternalServerError, "The request could not be decided.")
}

// maxSuggestions bounds among how many rule sets the one that was meant is looked for.
const maxSuggestions = 100

// unknownRuleSet is the answer to a request that names a rule set that does not exist. It
// suggests only rule sets that the caller may check.
func (a *API) unknownRuleSet(who *access.Identity, id string) *problem {
	p := newProblem(http.StatusNotFound, "ruleSet: there is no rule set %q", id)
	p.Reason = fluxgate.ReasonNoRuleSet
	loaded := a.config.Loaded()
	loaded = slices.DeleteFunc(loaded[:min(len(loaded), maxSuggestions)], func(id string) bool { return !a.allowed(who, id) })
	if meant := spelling.Nearest(id, loaded); meant != "" {
		p.Detail += ": did you mean " + meant + "?"
	}
	return p
}
