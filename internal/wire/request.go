package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Request is a request to be decided.
type Request struct {
	RuleSet string `json:"ruleSet,omitempty" doc:"The rule set. The default is the server's."`
	IP      string `json:"ip,omitempty" doc:"The client's address."`
	UserID  string `json:"userId,omitempty" doc:"The user."`
	APIKey  string `json:"apiKey,omitempty" doc:"The API key."`
	Method  string `json:"method,omitempty" doc:"The HTTP method."`
	Path    string `json:"path,omitempty" maxLength:"8192" doc:"The path as it was sent. A ? ends it; # and backslash must be escaped."`
	Host    string `json:"host,omitempty" doc:"The host, with or without port."`

	Headers    map[string][]string        `json:"headers,omitempty" doc:"Headers that rules may look at."`
	Attributes map[string]string          `json:"attributes,omitempty" doc:"What else is known: tenant, plan, region."`
	Descriptor []fluxgate.DescriptorEntry `json:"descriptor,omitempty" nullable:"false" maxItems:"16" doc:"The descriptor of Envoy."`
	Cost       int64                      `json:"cost,omitempty" minimum:"0" doc:"How many tokens the request takes. The default is 1."`
	Costs      map[string]int64           `json:"costs,omitempty" doc:"The most it may cost under rules with other measures."`
	Estimate   *Estimate                  `json:"estimate,omitempty" doc:"What it may use of a language model, for the cost tables."`
	Peek       bool                       `json:"peek,omitempty" doc:"Takes nothing. With cost 0 it asks for the state alone."`
	// TimeoutMs is how long the caller waits for the answer. A request that
	// would have to be held longer is rejected at once.
	TimeoutMs Millis `json:"timeoutMs,omitempty" doc:"How long the caller waits for the answer."`
	// Bytes says that the texts are bytes, each as the character with its
	// number. JSON has no other way to tell texts apart that are not UTF-8.
	Bytes bool `json:"bytes,omitempty" doc:"The texts are bytes, each as the character with its number."`
}

// texts are the fields that may have bytes that are not UTF-8, beside maps and lists.
func (w *Request) texts() []*string {
	return []*string{&w.RuleSet, &w.IP, &w.UserID, &w.APIKey, &w.Method, &w.Path, &w.Host}
}

// Estimate is what a request may use of a language model.
type Estimate struct {
	Model           string `json:"model,omitempty" doc:"A name of the cost tables."`
	InputTokens     int64  `json:"inputTokens,omitempty" minimum:"0" doc:"The tokens of the prompt."`
	MaxOutputTokens Maxima `json:"maxOutputTokens,omitempty" doc:"Most tokens of the answer, or a list of maxima. Default: the model's."`
}

// Maxima is the largest of the maxima that a request declares. A model may accept
// several names for it, and follow any of them.
type Maxima int64

// UnmarshalJSON reads a number or a list of numbers. Its errors are those of the
// numbers, to which the decoder adds the path. Negative numbers are refused with the request.
func (m *Maxima) UnmarshalJSON(text []byte) error {
	all := make([]int64, 1)
	target := any(&all[0])
	if text[0] == '[' {
		target = &all
	}
	if err := json.Unmarshal(text, target); err != nil {
		return err
	}
	switch {
	case len(all) == 0:
	case slices.Min(all) < 0:
		*m = -1
	default:
		*m = max(*m, Maxima(slices.Max(all)))
	}
	return nil
}

// Lines is the media type of an answer to a batch with one line for each request, in
// the order in which they are decided.
const Lines = "application/x-ndjson"

// Settle is the actual cost of a request.
type Settle struct {
	Receipt string `json:"receipt"`
	// One of these is set.
	Actual *int64 `json:"actual,omitempty"`
	Usage  *Usage `json:"usage,omitempty"`
}

// Extend names a receipt whose slots are to be renewed. The answer is the receipt to
// use from then on.
type Extend struct {
	Receipt string `json:"receipt"`
}

// Settlement is the result of settling an actual cost.
type Settlement struct {
	Returned int64 `json:"returned"`
	Charged  int64 `json:"charged"`
	Queued   bool  `json:"queued,omitempty" doc:"The server settles the receipt when Redis answers; numbers are 0."`
}

// Settlements are the result of settling a usage, by measure.
type Settlements struct {
	Measures map[string]store.Settlement `json:"measures"`
	Queued   bool                        `json:"queued,omitempty" doc:"The server settles the receipt when Redis answers; numbers are 0."`
}

// FromRequest returns a request as JSON.
func FromRequest(r *fluxgate.Request) Request {
	w := Request{
		RuleSet: r.RuleSet, UserID: r.UserID, APIKey: r.APIKey, Method: r.Method, Path: r.Path, Host: r.Host,
		Headers: r.Headers, Attributes: r.Attributes, Descriptor: r.Descriptor, Cost: r.Cost, Costs: r.Costs, Peek: r.Peek,
	}
	if e := r.Estimate; e != nil {
		w.Estimate = &Estimate{e.Model, e.InputTokens, Maxima(e.MaxOutputTokens)}
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
		Headers: w.Headers, Attributes: w.Attributes, Descriptor: w.Descriptor, Cost: w.Cost, Costs: w.Costs, Peek: w.Peek,
	}
	if e := w.Estimate; e != nil {
		r.Estimate = &fluxgate.Estimate{Model: e.Model, InputTokens: e.InputTokens, MaxOutputTokens: int64(e.MaxOutputTokens)}
	}
	r.Headers = canonical(r.Headers)
	if w.RuleSet != "" && !rules.ValidID(w.RuleSet) {
		return errors.New("ruleSet: not a valid id")
	}
	if len(w.Descriptor) > rules.MaxDescriptor {
		return fmt.Errorf("descriptor: has %d entries, at most %d are possible", len(w.Descriptor), rules.MaxDescriptor)
	}
	if slices.ContainsFunc(w.Descriptor, func(e fluxgate.DescriptorEntry) bool { return e.Key == "" }) {
		return errors.New("descriptor: an entry has no key")
	}
	if w.Cost < 0 {
		return errors.New("cost: cannot be negative")
	}
	if w.Cost > store.MaxCost {
		return fmt.Errorf("cost: at most %d is possible", int64(store.MaxCost))
	}
	if err := r.CheckCosts(); err != nil {
		return fmt.Errorf("costs and estimate: %w", err)
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
