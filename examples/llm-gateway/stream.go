package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/fluxgate/fluxgate"
)

// stream passes the events of an answer on, and settles the request when it is closed.
type stream struct {
	ctx    context.Context
	chat   *chat
	body   io.ReadCloser
	lines  *bufio.Scanner
	unread []byte // of the current event

	sent   int64  // tokens that were passed on
	usage  *usage // as last reported
	done   bool   // the answer is complete
	broken bool   // the upstream has ended it, not the client
}

func newStream(ctx context.Context, body io.ReadCloser) *stream {
	s := &stream{ctx: ctx, chat: chatOf(ctx), body: body, lines: bufio.NewScanner(body)}
	s.lines.Buffer(nil, maxAnswer)
	return s
}

// Read returns at most one event, so that the proxy flushes each.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		event, data := s.next()
		if len(event) == 0 {
			s.broken = s.ctx.Err() == nil
			if err := s.lines.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		if s.count(data) {
			s.unread = event
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// next returns the lines of the next event, and its data.
func (s *stream) next() (event, data []byte) {
	for s.lines.Scan() {
		line := s.lines.Bytes()
		event = append(append(event, line...), '\n')
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, value...)
		}
	}
	return event, bytes.TrimSpace(data)
}

// count counts an event, and reports whether it is passed on.
func (s *stream) count(data []byte) bool {
	var chunk struct {
		Choices []struct{ Delta any }
		Usage   *usage
	}
	switch {
	case len(data) == 0: // a comment
		return true
	case string(data) == "[DONE]":
		s.done = true
		return true
	case json.Unmarshal(data, &chunk) != nil:
		s.sent += tokens(string(data))
		return true
	}
	for _, choice := range chunk.Choices {
		s.sent += tokensOf(choice.Delta)
	}
	if chunk.Usage == nil {
		return true
	}
	s.usage = chunk.Usage
	last := len(chunk.Choices) == 0
	s.done = s.done || last
	return !last || s.chat.wantsUsage
}

// tokensOf counts all strings of a delta: text, refusals, reasoning, calls of tools.
func tokensOf(delta any) (n int64) {
	switch v := delta.(type) {
	case string:
		return tokens(v)
	case []any:
		for _, item := range v {
			n += tokensOf(item)
		}
	case map[string]any:
		for _, field := range v {
			n += tokensOf(field)
		}
	}
	return n
}

// Close settles a stream by its usage, and one that was aborted by what was sent.
// Where that does not show what was used, it stays charged at its estimate.
func (s *stream) Close() error {
	used := fluxgate.Usage{InputTokens: s.chat.estimate.InputTokens, OutputTokens: s.sent}
	nothing := s.sent == 0 && !s.done
	switch {
	case s.usage != nil:
		used = s.usage.total()
		if !s.done {
			used.OutputTokens = max(used.OutputTokens, s.sent)
		}
		settle(s.ctx, used)
	case nothing && s.broken:
		withdraw(s.ctx)
	case nothing, hidesReasoning.MatchString(s.chat.estimate.Model):
	default:
		settle(s.ctx, used)
	}
	return s.body.Close()
}
