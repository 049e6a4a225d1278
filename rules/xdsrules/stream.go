package xdsrules

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// run keeps a stream to the server.
func (s *Source) run(ctx context.Context) {
	wait := minPause
	for {
		answered, err := s.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		s.lost(err)
		if answered {
			wait = minPause
		}
		_ = s.config.pause(ctx, wait/2+rand.N(wait)) //nolint:gosec // spreads load, not security-relevant
		wait = min(2*wait, maxPause)
	}
}

// stream receives responses until the connection ends. It reports whether there were any.
func (s *Source) stream(ctx context.Context) (answered bool, err error) {
	conn, err := s.config.dial()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	// Without a version: one of an earlier server can be that of other content here.
	request := &discovery.DiscoveryRequest{Node: s.node(), TypeUrl: typeURL}
	refusals := 0
	for {
		if err := stream.Send(request); err != nil {
			_, err = stream.Recv() // has the reason
			return answered, err
		}
		if !answered {
			s.connected()
		}
		response, err := stream.Recv()
		if err != nil {
			return answered, err
		}
		answered = true
		request = &discovery.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: request.GetVersionInfo(), ResponseNonce: response.GetNonce()}
		if err := s.use(response); err != nil {
			request.ErrorDetail = status.New(codes.InvalidArgument, detail(err)).Proto()
			if refusals > 0 { // servers send it again at once
				_ = s.config.pause(ctx, min(minRefusePause<<min(refusals-1, 10), maxRefusePause))
			}
			refusals++
			continue
		}
		request.VersionInfo, refusals = response.GetVersionInfo(), 0
	}
}

func (s *Source) node() *core.Node {
	node := &core.Node{Id: s.config.NodeID}
	if len(s.config.NodeMetadata) > 0 {
		node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for key, value := range s.config.NodeMetadata {
			node.Metadata.Fields[key] = structpb.NewStringValue(value)
		}
	}
	return node
}

// use accepts a response, or returns why it is refused.
func (s *Source) use(response *discovery.DiscoveryResponse) error {
	s.mu.Lock()
	first, before, lastErr := s.current == nil, cmp.Or(s.current, &content{}), s.err
	s.mu.Unlock()
	defer s.trying.Do(func() { close(s.tried) })
	next, err := parse(response.GetResources(), before)
	if err != nil {
		s.refuse(response.GetVersionInfo(), err, lastErr)
		return err
	}
	changed := next.changed(before)
	s.mu.Lock()
	s.current, s.err, s.away = next, nil, false
	s.mu.Unlock()
	if first {
		s.changed.Add("") // ids that it does not have, too
	}
	for _, id := range changed {
		s.changed.Add(id)
	}
	if len(changed) > 0 || lastErr != nil {
		for _, n := range next.notes {
			s.config.Logger.Info("rate limit configuration: "+n, "server", s.config.Server)
		}
		s.config.Logger.Info("accepted the rate limit configuration", "server", s.config.Server, "version", response.GetVersionInfo(),
			"domains", len(next.Versions), "changed", len(changed))
	}
	return nil
}

// refuse records an invalid response.
func (s *Source) refuse(version string, err, lastErr error) {
	refused := fmt.Errorf("version %q of the rate limit configuration is rejected: %w", version, err)
	s.mu.Lock()
	s.err, s.away = refused, false
	s.mu.Unlock()
	if lastErr == nil || lastErr.Error() != refused.Error() {
		s.config.Logger.Error("rejected the rate limit configuration; the last accepted one stays in effect", "server", s.config.Server,
			"version", version, "error", detail(err))
	}
}

// connected records that a stream was opened. The server may still refuse it, so that it
// is not logged.
func (s *Source) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errNoResponse
}

// lost records that the connection has ended.
func (s *Source) lost(err error) {
	s.mu.Lock()
	known, loaded := s.away, s.current != nil
	s.err, s.away = fmt.Errorf("the connection failed: %w", err), true
	s.mu.Unlock()
	s.trying.Do(func() { close(s.tried) })
	switch {
	case known:
	case loaded:
		s.config.Logger.Warn("lost the connection to the xDS server; the last accepted rules stay in effect, connecting again",
			"server", s.config.Server, "error", err)
	default:
		s.config.Logger.Error("cannot get rules from the xDS server; connecting again", "server", s.config.Server, "error", err)
	}
}
