package xdsrules

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
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
	resources map[[sha256.Size]byte]*resource // by their hash
	rulecontent.Content
	notes []string // on resources that are new
}

// resource is the configuration of a domain.
type resource struct {
	name, domain string
	version      rules.Version
}

// parse converts the resources of a response. Those that were in the one before are not
// converted again. The error has the problems of all resources.
func parse(resources []*anypb.Any, before *content) (*content, error) {
	if len(resources) > maxResources {
		return nil, fmt.Errorf("the response has %d resources, at most %d are allowed", len(resources), maxResources)
	}
	next := &content{resources: map[[sha256.Size]byte]*resource{}, Content: rulecontent.New()}
	var wrong []error
	names := map[string]string{} // of resources, by rule set
	// Servers send them in any order, and errors are to be the same.
	resources = slices.SortedFunc(slices.Values(resources), func(a, b *anypb.Any) int { return bytes.Compare(a.GetValue(), b.GetValue()) })
	for _, packed := range resources {
		sum := sha256.Sum256(packed.GetValue())
		r := before.resources[sum]
		if r == nil || packed.GetTypeUrl() != typeURL {
			var err error
			if r, err = next.convert(packed); err != nil {
				wrong = append(wrong, err)
				continue
			}
		}
		id := r.version.RuleSetID
		if other, taken := names[id]; taken {
			wrong = append(wrong, fmt.Errorf("resource %q: resource %q has the same domain, %q", r.name, other, r.domain))
		}
		names[id] = r.name
		next.resources[sum] = r
		next.Add(r.version)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	next.Remember(&before.Content)
	return next, nil
}

// convert converts one resource.
func (c *content) convert(packed *anypb.Any) (*resource, error) {
	config := &pb.RateLimitConfig{}
	if packed.GetTypeUrl() != typeURL {
		return nil, fmt.Errorf("a resource has the type %q, not %s", packed.GetTypeUrl(), typeURL)
	}
	if err := packed.UnmarshalTo(config); err != nil {
		return nil, fmt.Errorf("a resource cannot be decoded: %w", err)
	}
	set, notes, err := envoyrules.Convert(domainOf(config), envoyrules.Options{})
	var revision int64
	if err == nil {
		revision, err = rules.ContentRevision(set)
	}
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", config.GetName(), err)
	}
	for _, n := range notes {
		c.notes = append(c.notes, fmt.Sprintf("resource %q: %s", config.GetName(), n))
	}
	entry := rules.Entry{RuleSetID: set.ID(), Head: rules.Head{Revision: revision}, At: time.Now().UTC().Round(0)}
	return &resource{name: config.GetName(), domain: config.GetDomain(), version: rules.Version{Entry: entry, RuleSet: set}}, nil
}

func domainOf(c *pb.RateLimitConfig) *envoyrules.Domain {
	return &envoyrules.Domain{Domain: c.GetDomain(), Descriptors: descriptorsOf(c.GetDescriptors())}
}

func descriptorsOf(from []*pb.RateLimitDescriptor) []envoyrules.Descriptor {
	var all []envoyrules.Descriptor
	for _, d := range from {
		all = append(all, envoyrules.Descriptor{
			Key: d.GetKey(), Value: d.GetValue(),
			RateLimit: limitOf(d.GetRateLimit()), Descriptors: descriptorsOf(d.GetDescriptors()),
			ShadowMode: d.GetShadowMode(), QuotaMode: d.GetQuotaMode(),
			DetailedMetric: d.GetDetailedMetric(), Metadata: d.GetMetadata().AsMap(),
		})
	}
	return all
}

func limitOf(l *pb.RateLimitPolicy) *envoyrules.RateLimit {
	if l == nil {
		return nil
	}
	limit := &envoyrules.RateLimit{
		Unit: strings.ToLower(l.GetUnit().String()), RequestsPerUnit: l.GetRequestsPerUnit(),
		Unlimited: l.GetUnlimited(), Name: l.GetName(),
	}
	for _, r := range l.GetReplaces() {
		limit.Replaces = append(limit.Replaces, r.GetName())
	}
	return limit
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
