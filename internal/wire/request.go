package wire

import (
	"errors"
	"net/netip"
	"net/textproto"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Request is a request to be decided.
type Request struct {
	RuleSet    string              `json:"ruleSet,omitempty" doc:"The rule set. The default is the server's."`
	IP         string              `json:"ip,omitempty" doc:"The client's address."`
	UserID     string              `json:"userId,omitempty" doc:"The user."`
	APIKey     string              `json:"apiKey,omitempty" doc:"The API key."`
	Method     string              `json:"method,omitempty" doc:"The HTTP method."`
	Path       string              `json:"path,omitempty" maxLength:"8192" doc:"The path as it was sent, percent-encoded. A ? ends it; # and backslash must be escaped."`
	Host       string              `json:"host,omitempty" doc:"The host, with or without port."`
	Headers    map[string][]string `json:"headers,omitempty" doc:"Headers that rules may look at."`
	Attributes map[string]string   `json:"attributes,omitempty" doc:"What else is known: tenant, plan, region."`
	Cost       int64               `json:"cost,omitempty" minimum:"0" doc:"How many tokens the request takes. The default is 1."`
	Peek       bool                `json:"peek,omitempty" doc:"Takes nothing. With cost 0 it asks for the state alone."`
	// TimeoutMs is how long the caller waits for the answer. A request that
	// would have to be held longer is rejected at once.
	TimeoutMs Millis `json:"timeoutMs,omitempty" doc:"How long the caller waits for the answer."`
	// Bytes says that the texts are bytes, each as the character with its
	// number. JSON has no other way to tell texts apart that are not UTF-8.
	Bytes bool `json:"bytes,omitempty" doc:"The texts are bytes, each as the character with its number."`
}

// Batch is several requests, each decided by itself.
type Batch struct {
	Requests []Request `json:"requests"`
}

// Settle is the actual cost of a request.
type Settle struct {
	Receipt string `json:"receipt"`
	Actual  int64  `json:"actual"`
}

// Extend names a receipt whose slots are to be renewed. The answer is the receipt to
// use from then on.
type Extend struct {
	Receipt string `json:"receipt"`
}

// Settlement is the result of settling.
type Settlement struct {
	Returned int64 `json:"returned"`
	Charged  int64 `json:"charged"`
}

// FromRequest returns a request as JSON.
func FromRequest(r *fluxgate.Request) Request {
	w := Request{
		RuleSet: r.RuleSet, UserID: r.UserID, APIKey: r.APIKey, Method: r.Method, Path: r.Path, Host: r.Host,
		Headers: r.Headers, Attributes: r.Attributes, Cost: r.Cost, Peek: r.Peek,
	}
	if r.IP.IsValid() {
		w.IP = r.IP.String()
	}
	if !w.valid() {
		w.Bytes = true
		_ = w.each(fromBytes) // never fails
	}
	return w
}

// canonical returns headers under canonical names. Callers may send the spelling
// of their clients.
func canonical(headers map[string][]string) map[string][]string {
	for name := range headers {
		if textproto.CanonicalMIMEHeaderKey(name) != name {
			renamed := make(map[string][]string, len(headers))
			for name, lines := range headers {
				name = textproto.CanonicalMIMEHeaderKey(name)
				renamed[name] = append(renamed[name], lines...)
			}
			return renamed
		}
	}
	return headers
}

// SetTimeout sets how long the caller waits for the answer.
func (w *Request) SetTimeout(d time.Duration) { w.TimeoutMs = millis(d) }

// Timeout returns how long the caller waits for the answer, 0 if it is not set.
func (w *Request) Timeout() time.Duration { return w.TimeoutMs.duration() }

// To fills in a request to be decided. Errors do not contain values: one may be a
// secret in the wrong field.
func (w *Request) To(r *fluxgate.Request) error {
	if w.Bytes {
		if err := w.each(toBytes); err != nil {
			return err
		}
	}
	*r = fluxgate.Request{
		RuleSet: w.RuleSet, UserID: w.UserID, APIKey: w.APIKey, Method: w.Method, Path: w.Path, Host: w.Host,
		Headers: w.Headers, Attributes: w.Attributes, Cost: w.Cost, Peek: w.Peek,
	}
	r.Headers = canonical(r.Headers)
	if w.RuleSet != "" && !fluxgate.ValidID(w.RuleSet) {
		return errors.New("ruleSet: not a valid id")
	}
	if w.Cost < 0 {
		return errors.New("cost: cannot be negative")
	}
	if w.TimeoutMs < 0 {
		return errors.New("timeoutMs: cannot be negative")
	}
	if w.IP != "" {
		ip, err := netip.ParseAddr(w.IP)
		if err != nil {
			return errors.New("ip: not an address")
		}
		r.IP = ip.Unmap().WithZone("")
	}
	return nil
}
