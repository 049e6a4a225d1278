package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// script is how the server of a case answers: checks by user, the others by receipt. The
// key "*" is for all others.
type script struct {
	Check, Settle, Extend map[string]replies
}

// replies are the answers to the first request, the second and so on. The last one is repeated.
type replies []reply

// UnmarshalJSON also reads a single reply.
func (all *replies) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[]reply)(all))
	}
	*all = make(replies, 1)
	return json.Unmarshal(text, &(*all)[0])
}

// reply is one answer.
type reply struct {
	AfterMs int               // delays it
	Do      string            // hang, reset or cut
	Status  int               // 0 means 200
	Headers map[string]string // beside the content type
	Body    json.RawMessage   // a string is sent as it is
}

// ordinary reports whether a reply is a decision, which can be a line of a batch.
func (a *reply) ordinary() bool {
	return a.Do == "" && a.Status == 0 && bytes.HasPrefix(a.Body, []byte("{"))
}

// receipt is the one in the body of a reply.
func (a *reply) receipt() string {
	var body struct{ Receipt string }
	_ = json.Unmarshal(a.Body, &body) // a body that is no object has none
	return body.Receipt
}

// scripted is the server of one case.
type scripted struct {
	script script

	mu   sync.Mutex
	used map[string]int // replies of each list
	seen seen
	open map[string]bool // receipts that were sent and are not settled
}

// seen is what the server has received.
type seen struct {
	Checks   map[string]int               `json:"checks"`   // how often each user was checked
	Settled  map[string][]json.RawMessage `json:"settled"`  // what each receipt was settled with
	Extended map[string]int               `json:"extended"` // how often each receipt was renewed
	Open     []string                     `json:"open"`
	Request  map[string]any               `json:"request"` // the last check
}

func newScripted(s script) *scripted {
	return &scripted{script: s, used: map[string]int{}, open: map[string]bool{}, seen: seen{
		Checks: map[string]int{}, Settled: map[string][]json.RawMessage{}, Extended: map[string]int{},
	}}
}

func (s *scripted) report(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Open = append([]string{}, slices.Sorted(maps.Keys(s.open))...) // a list, also if it is empty
	writeJSON(w, &s.seen)
}

// next returns the next reply of a list. The lock is held.
func (s *scripted) next(call string, from map[string]replies, key string) reply {
	list, ok := from[key]
	if !ok {
		key = "*"
		list = from[key]
	}
	if len(list) == 0 {
		detail := strconv.Quote("the script has no " + call + " of " + key)
		return reply{Status: http.StatusNotImplemented, Body: json.RawMessage(`{"detail":` + detail + `}`)}
	}
	n := s.used[call+" "+key]
	s.used[call+" "+key]++
	return list[min(n, len(list)-1)]
}

// note records a check and returns its reply.
func (s *scripted) note(request map[string]any) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, _ := request["userId"].(string)
	if headers, ok := request["headers"].(map[string]any); ok {
		lower := map[string]any{}
		for name, lines := range headers {
			lower[strings.ToLower(name)] = lines
		}
		request["headers"] = lower
	}
	if ip, ok := request["ip"].(string); ok { // clients spell IPv6 addresses in different ways
		if addr, err := netip.ParseAddr(ip); err == nil {
			request["ip"] = addr.Unmap().String()
		}
	}
	s.seen.Checks[user]++
	s.seen.Request = request
	return s.next("check", s.script.Check, user)
}

func (s *scripted) check(w http.ResponseWriter, r *http.Request) {
	var request map[string]any
	if read(w, r, &request) {
		a := s.note(request)
		s.answer(w, r, &a, "")
	}
}

// batch answers each check as a line of its own. A reply that is no decision is that of
// the whole batch.
func (s *scripted) batch(w http.ResponseWriter, r *http.Request) {
	var body struct{ Requests []map[string]any }
	if !read(w, r, &body) {
		return
	}
	all := make([]reply, len(body.Requests))
	order := make([]int, len(all))
	for i, request := range body.Requests {
		all[i], order[i] = s.note(request), i
	}
	if i := slices.IndexFunc(all, func(a reply) bool { return !a.ordinary() }); i >= 0 {
		s.answer(w, r, &all[i], "")
		return
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].AfterMs, all[b].AfterMs) })
	lines := r.Header.Get("Accept") == "application/x-ndjson"
	start := time.Now()
	for _, i := range order {
		due := start.Add(time.Duration(all[i].AfterMs) * time.Millisecond)
		if !sleep(r.Context(), time.Until(due)) {
			return
		}
		if lines {
			s.sent("", &all[i])
			_, _ = fmt.Fprintf(w, `{"index":%d,"decision":%s}`+"\n", i, compact(all[i].Body)) // the client may have gone
			_ = http.NewResponseController(w).Flush()
		}
	}
	if lines {
		return
	}
	decisions := make([]json.RawMessage, len(all))
	for i := range all {
		s.sent("", &all[i])
		decisions[i] = all[i].Body
	}
	writeJSON(w, map[string]any{"decisions": decisions})
}

func compact(text json.RawMessage) []byte {
	var short bytes.Buffer
	_ = json.Compact(&short, text) // it was decoded before
	return short.Bytes()
}

func (s *scripted) settle(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Receipt       string
		Actual, Usage json.RawMessage
	}
	if !read(w, r, &body) {
		return
	}
	s.mu.Lock()
	s.seen.Settled[body.Receipt] = append(s.seen.Settled[body.Receipt], append(body.Actual, body.Usage...))
	a := s.nextOr("settle", s.script.Settle, body.Receipt, `{"returned":0,"charged":0}`)
	s.mu.Unlock()
	s.answer(w, r, &a, body.Receipt)
}

func (s *scripted) extend(w http.ResponseWriter, r *http.Request) {
	var body struct{ Receipt string }
	if !read(w, r, &body) {
		return
	}
	s.mu.Lock()
	s.seen.Extended[body.Receipt]++
	a := s.nextOr("extend", s.script.Extend, body.Receipt, `{"receipt":`+strconv.Quote(body.Receipt)+`}`)
	s.mu.Unlock()
	s.answer(w, r, &a, body.Receipt)
}

// nextOr is next for calls that succeed without a script.
func (s *scripted) nextOr(call string, from map[string]replies, receipt, body string) reply {
	if from[receipt] == nil && from["*"] == nil {
		return reply{Body: json.RawMessage(body)}
	}
	return s.next(call, from, receipt)
}

// sent records that a reply reaches the client: it ends an old receipt and may have a new one.
func (s *scripted) sent(old string, a *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := a.receipt()
	if a.Status == 0 || fresh != "" {
		delete(s.open, old)
	}
	if fresh != "" {
		s.open[fresh] = true
	}
}

// answer does what a reply says. What a client that has left would get is not sent.
func (s *scripted) answer(w http.ResponseWriter, r *http.Request, a *reply, old string) {
	if !sleep(r.Context(), time.Duration(a.AfterMs)*time.Millisecond) {
		return
	}
	switch a.Do {
	case "hang":
		<-r.Context().Done()
		return
	case "reset":
		reset(w)
		return
	}
	body := []byte(a.Body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	status := cmp.Or(a.Status, http.StatusOK)
	w.Header().Set("Content-Type", "application/json")
	if status != http.StatusOK {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if a.Do == "cut" {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // closes the connection
	}
	s.sent(old, a)
	_, _ = w.Write(body) // the client may have gone
}

// reset closes the connection of a request without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// sleep reports whether the client is still there afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
