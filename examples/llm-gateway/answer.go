package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
)

// maxAnswer bounds an answer that is not streamed, and a line of one that is.
const maxAnswer = 8 << 20

// usage is what an upstream reports.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) total() fluxgate.Usage {
	return fluxgate.Usage{
		InputTokens: u.PromptTokens, CachedInputTokens: u.PromptDetails.CachedTokens,
		OutputTokens: u.CompletionTokens, ReasoningTokens: u.CompletionDetails.ReasoningTokens,
	}
}

// settle corrects what was reserved. A usage that cannot be leaves it at the estimate.
func settle(ctx context.Context, used fluxgate.Usage) {
	if _, err := httplimit.SettleUsage(ctx, &used); err != nil {
		log.Printf("settling: %v", err)
	}
}

// withdraw gives all of it back.
func withdraw(ctx context.Context) {
	if _, err := httplimit.Settle(ctx, 0); err != nil {
		log.Printf("withdrawing: %v", err)
	}
}

// answered settles a request by its answer. A stream does that when it ends, and failed
// if the upstream could not answer.
func answered(res *http.Response) error {
	ctx, header := res.Request.Context(), res.Header
	res.Header = http.Header{} // without the limits, cookies and account of the upstream
	for _, name := range []string{"Content-Type", "X-Request-Id"} {
		if value := header.Get(name); value != "" {
			res.Header.Set(name, value)
		}
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch status := res.StatusCode; {
	case status == http.StatusOK && media == "text/event-stream":
		res.Body = newStream(ctx, res.Body)
		return nil
	case status == http.StatusOK:
		return settleWhole(ctx, res)
	case status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusTooManyRequests:
		settle(ctx, fluxgate.Usage{}) // the client's mistake: it counts as a request, without tokens
		return nil
	}
	return fmt.Errorf("it answered %s", res.Status)
}

// settleWhole settles an answer that is not streamed, before it is passed on.
func settleWhole(ctx context.Context, res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), res.Body), res.Body}
	if len(text) == maxAnswer {
		return nil // the rest is not known: it stays charged at its estimate
	}
	used := fluxgate.Usage{InputTokens: chatOf(ctx).estimate.InputTokens, OutputTokens: tokens(string(text))}
	var answer struct{ Usage *usage }
	if json.Unmarshal(text, &answer) == nil && answer.Usage != nil {
		used = answer.Usage.total()
	}
	settle(ctx, used)
	return nil
}
