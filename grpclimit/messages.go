package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
)

// messageStream decides the messages of a stream.
type messageStream struct {
	grpc.ServerStream
	gate   *gate
	call   *Call
	ctx    context.Context
	cancel context.CancelFunc

	// Received and sent messages may be decided at the same time.
	mu      sync.Mutex
	refused error  // why the stream ends
	release func() // ends the received message that the handler works on
	ended   bool
}

// serveMessages runs a handler with a stream that decides its messages. After the
// first that is refused the context of the handler ends, all of its calls of the
// stream fail, and the stream ends with that status whatever the handler returns.
func serveMessages(g *gate, call *Call, srv any, ss grpc.ServerStream, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(call.ctx)
	defer cancel()
	s := &messageStream{ServerStream: ss, gate: g, call: call, ctx: ctx, cancel: cancel}
	defer s.replace(nil, true) // also if handler panics
	err := handler(srv, s)
	if refused := s.refusal(); refused != nil {
		return refused
	}
	return err
}

// Context returns a context that ends when a message is rejected.
func (s *messageStream) Context() context.Context { return s.ctx }

// RecvMsg returns the next message when it has been admitted.
func (s *messageStream) RecvMsg(m any) error {
	s.replace(nil, false) // the handler is done with the last one
	if err := s.refusal(); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || !s.gate.received {
		return err
	}
	end, err := s.admit(m, false)
	if err != nil {
		return err
	}
	s.replace(end, false)
	return nil
}

// SendMsg sends a message when it has been admitted.
func (s *messageStream) SendMsg(m any) error {
	if err := s.refusal(); err != nil {
		return err
	}
	if !s.gate.sent {
		return s.ServerStream.SendMsg(m)
	}
	end, err := s.admit(m, true)
	if err != nil {
		return err
	}
	defer end()
	return s.ServerStream.SendMsg(m)
}

// admit decides a message. The first refusal is that of the stream.
func (s *messageStream) admit(m any, sent bool) (end func(), err error) {
	call := *s.call
	call.ctx, call.Message, call.Sent = s.ctx, m, sent
	_, end, err = s.gate.admit(&call, false, nil)
	if err == nil {
		return end, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = err
		s.cancel()
	}
	return nil, s.refused
}

func (s *messageStream) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// replace ends the received message that the handler works on; next ends the one
// that it works on from now. A handler may leave a goroutine that still receives:
// what that gets after the stream has ended is ended at once.
func (s *messageStream) replace(next func(), ended bool) {
	s.mu.Lock()
	last := s.release
	s.release, s.ended = next, s.ended || ended
	if s.ended {
		s.release = nil
	}
	late := s.ended && next != nil
	s.mu.Unlock()
	if last != nil {
		last()
	}
	if late {
		next()
	}
}
