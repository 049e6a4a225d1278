package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/fluxgate/fluxgate"
)

// tokens is how many tokens a text has at most. A token has at least one byte in all
// common tokenizers, so this holds for every model and needs no vocabulary. It is
// about four times too much for English: what is too much is given back when the
// answer ends. Use the tokenizer of your models to reserve less.
func tokens(text string) int64 { return int64(len(text)) }

// hidesReasoning matches models that do not send the tokens of their reasoning: an
// aborted stream does not show what they have used.
var hidesReasoning = regexp.MustCompile(`(?i)(^|[/:])(o[0-9]|gpt-5)`)

// The fields that are passed on. Others are refused, because they could cost more than
// is estimated: another service tier, searches, audio.
var (
	requestFields = []string{
		"model", "messages", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options",
		"temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
		"tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "verbosity",
		"user", "metadata", "store", "prompt_cache_key", "safety_identifier",
	}
	messageFields = []string{"role", "content", "name", "tool_calls", "tool_call_id", "refusal"}
)

const maxTokens, maxChoices = 10_000_000, 128

// chat is a request to a model.
type chat struct {
	team       string
	body       []byte // as it is passed on
	estimate   fluxgate.Estimate
	wantsUsage bool // the client reads the event with the usage of a stream
}

type chatKey struct{}

func chatOf(ctx context.Context) *chat { return ctx.Value(chatKey{}).(*chat) }

// parseChat reads what a request may use. The body is encoded again, so that the
// upstream reads what was read here, also if a name occurs twice. Schemas are not
// encoded again: a model follows the order of their names.
func parseChat(body []byte) (*chat, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, errors.New("the body must be a JSON object")
	}
	if err := onlyFields(fields, requestFields); err != nil {
		return nil, err
	}
	request := struct {
		Model               string                       `json:"model"`
		Messages            []map[string]json.RawMessage `json:"messages"`
		MaxTokens           int64                        `json:"max_tokens"`
		MaxCompletionTokens int64                        `json:"max_completion_tokens"`
		N                   int64                        `json:"n"`
		Stream              bool                         `json:"stream"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}{N: 1}
	wrong := new(json.UnmarshalTypeError)
	if errors.As(json.Unmarshal(encode(fields), &request), &wrong) {
		return nil, fmt.Errorf("%s has a wrong type: %.40s", wrong.Field, wrong.Value)
	}
	least, most := min(request.MaxTokens, request.MaxCompletionTokens), max(request.MaxTokens, request.MaxCompletionTokens)
	switch {
	case request.Model == "" || len(request.Messages) == 0:
		return nil, errors.New("model and messages are required")
	case least < 0 || most > maxTokens:
		return nil, fmt.Errorf("max_tokens and max_completion_tokens must be 0 to %d", maxTokens)
	case request.N < 1 || request.N > maxChoices:
		return nil, fmt.Errorf("n must be 1 to %d", maxChoices)
	case request.N > 1 && most == 0: // the maximum of a cost table is that of one choice
		return nil, errors.New("n above 1 needs max_completion_tokens")
	}
	for _, m := range request.Messages {
		if err := checkMessage(m); err != nil {
			return nil, err
		}
	}
	fields["messages"] = encode(request.Messages)
	if request.Stream {
		fields["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	c := &chat{body: encode(fields), wantsUsage: request.StreamOptions.IncludeUsage}
	c.estimate = fluxgate.Estimate{Model: request.Model, InputTokens: tokens(string(c.body)), MaxOutputTokens: request.N * most}
	return c, nil
}

// checkMessage refuses images, audio and files: a short reference can be many tokens.
func checkMessage(m map[string]json.RawMessage) error {
	if err := onlyFields(m, messageFields); err != nil {
		return err
	}
	var text string
	if raw, ok := m["content"]; ok && json.Unmarshal(raw, &text) != nil {
		var parts []map[string]string
		other := func(part map[string]string) bool { return part["type"] != "text" }
		if json.Unmarshal(raw, &parts) != nil || slices.ContainsFunc(parts, other) {
			return errors.New("messages must have text only")
		}
		m["content"] = encode(parts)
	}
	return nil
}

func onlyFields(object map[string]json.RawMessage, names []string) error {
	for name := range object {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%.40q is not supported", name)
		}
	}
	return nil
}

// encode encodes what was decoded before.
func encode(v any) json.RawMessage { return fluxgate.Must(json.Marshal(v)) }
