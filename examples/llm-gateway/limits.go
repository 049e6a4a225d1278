package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// setLimitHeaders sets x-ratelimit-limit-requests, -remaining-requests, -reset-requests
// and the same for tokens. Of several bands they have the one with the least left. What could not be
// counted has no headers.
func setLimitHeaders(h http.Header, d *fluxgate.Decision) {
	tightest := map[string]fluxgate.BandStatus{}
	for b := range d.Bands() {
		if b.Shadow() || b.Band.Kind == rules.Concurrency || b.Status == store.Unavailable {
			continue
		}
		measure := cmp.Or(b.Rule.Cost, rules.MeasureRequests)
		if t, ok := tightest[measure]; !ok || share(b) < share(t) {
			tightest[measure] = b
		}
	}
	for _, measure := range []string{rules.MeasureRequests, rules.MeasureTokens} {
		if b, ok := tightest[measure]; ok {
			h.Set("X-Ratelimit-Limit-"+measure, strconv.FormatInt(b.Limit, 10))
			h.Set("X-Ratelimit-Remaining-"+measure, strconv.FormatInt(b.Remaining, 10))
			h.Set("X-Ratelimit-Reset-"+measure, b.FullAfter.Round(time.Millisecond).String())
		}
	}
}

func share(b fluxgate.BandStatus) float64 { return float64(b.Remaining) / float64(b.Limit) }

// reject answers a request that does not pass. Retry-After is set already.
func reject(w http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
	d, message := &rejection.Decision, cmp.Or(rejection.Problem.Detail, rejection.Problem.Title)
	setLimitHeaders(w.Header(), d)
	if rejection.Problem.Status == http.StatusTooManyRequests {
		message = fmt.Sprintf("limit %s.%s: %d of %d left, which is too little for this request", d.RuleID, d.Band, d.Remaining, d.Limit)
		if after := w.Header().Get("Retry-After"); after != "" {
			message += "; try again in " + after + "s"
		}
	}
	writeError(w, rejection.Problem.Status, message)
}

// writeError writes an error as OpenAI does.
func writeError(w http.ResponseWriter, status int, message string) {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": kind}})
}
