package xdsrules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/rulecontent"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
)

// typeURL is the type of the resources.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

const (
	// maxResources bounds a response. A gateway keeps as many rule sets.
	maxResources = 1_000
	// maxDetail bounds the reason in a refusal, in characters.
	maxDetail = 4_000
)

// content is what an accepted response has.
type content struct {
	rulecontent.Content
	notes []string
}

// parse converts the resources of a response. The error has the problems of all resources.
func parse(resources []*anypb.Any, before *content) (*content, error) {
	if len(resources) > maxResources {
		return nil, fmt.Errorf("the response has %d resources, at most %d are allowed", len(resources), maxResources)
	}
	next := &content{Content: rulecontent.New()}
	var wrong []error
	names := map[string]string{} // of resources, by rule set
	// Servers send them in any order, and errors are to be the same.
	resources = slices.SortedFunc(slices.Values(resources), func(a, b *anypb.Any) int { return bytes.Compare(a.GetValue(), b.GetValue()) })
	for _, packed := range resources {
		config, version, err := next.convert(packed)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if other, taken := names[version.RuleSetID]; taken {
			err = fmt.Errorf("resource %q: resource %q has the same domain, %q", config.GetName(), other, config.GetDomain())
			wrong = append(wrong, err)
		}
		names[version.RuleSetID] = config.GetName()
		next.Add(version)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	next.Remember(&before.Content)
	return next, nil
}

// convert converts one resource.
func (c *content) convert(packed *anypb.Any) (config *pb.RateLimitConfig, version rules.Version, err error) {
	config = &pb.RateLimitConfig{}
	if packed.GetTypeUrl() != typeURL {
		return config, version, fmt.Errorf("a resource has the type %q, not %s", packed.GetTypeUrl(), typeURL)
	}
	if err := packed.UnmarshalTo(config); err != nil {
		return config, version, fmt.Errorf("a resource cannot be decoded: %w", err)
	}
	domain, err := domainOf(config)
	var notes []envoyrules.Note
	if err == nil {
		version.RuleSet, notes, err = envoyrules.Convert(domain)
	}
	if err == nil {
		version.Revision, err = rules.ContentRevision(version.RuleSet)
	}
	if err != nil {
		return config, version, fmt.Errorf("resource %q: %w", config.GetName(), err)
	}
	for _, n := range notes {
		c.notes = append(c.notes, fmt.Sprintf("resource %q: %s", config.GetName(), n))
	}
	version.RuleSetID, version.At = version.RuleSet.ID(), time.Now().UTC().Round(0)
	return config, version, nil
}

// domainOf converts a configuration through JSON, in which it has the names of [envoyrules.Domain].
func domainOf(c *pb.RateLimitConfig) (*envoyrules.Domain, error) {
	domain := &envoyrules.Domain{}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, domain)
	}
	return domain, err
}

// changed returns the ids whose heads differ from those before.
func (c *content) changed(before *content) []string {
	var ids []string
	for id, head := range c.Heads {
		if before.Heads[id] != head {
			ids = append(ids, id)
		}
	}
	return ids
}

// detail is the reason in a refusal.
func detail(err error) string {
	return printable.Text(err.Error(), maxDetail)
}
