package testenv

import (
	"context"
	"errors"
	"fmt"
)

// Failover makes the sentinels replace a healthy master, and returns the new one when they
// agree on it.
func (s *Sentinel) Failover(ctx context.Context) (*Server, error) {
	old, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func(ctx context.Context) error {
		watching := running(s.watchers)
		if len(watching) == 0 {
			return errors.New("no sentinel is running")
		}
		// NOGOODSLAVE and INPROG are temporary.
		_, err := watching[0].Do(ctx, "SENTINEL", "FAILOVER", sentinelMasterName)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fail over from %s: %w", old.addr, err)
	}
	return s.WaitForNewMaster(ctx, old)
}

// WaitForNewMaster returns the master that replaces old, when every running sentinel
// reports it and it has the role.
func (s *Sentinel) WaitForNewMaster(ctx context.Context, old *Server) (*Server, error) {
	var next *Server
	err := poll(ctx, func(ctx context.Context) error {
		var err error
		if next, err = s.agreedMaster(ctx); err != nil {
			return err
		}
		if next == old {
			return fmt.Errorf("%s is still the master", old.addr)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for a new master: %w", err)
	}
	return next, nil
}

// agreedMaster returns the running master that every running sentinel reports.
func (s *Sentinel) agreedMaster(ctx context.Context) (*Server, error) {
	master, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	if !master.Running() {
		return nil, fmt.Errorf("the master %s is not running", master.addr)
	}
	for _, w := range running(s.watchers) {
		addr, err := masterAddr(ctx, w)
		if err != nil {
			return nil, err
		}
		if addr != master.addr {
			return nil, fmt.Errorf("%s reports the master %s, not %s", w.addr, addr, master.addr)
		}
	}
	info, err := master.Info(ctx, "replication")
	if err != nil {
		return nil, err
	}
	if info["role"] != "master" {
		return nil, fmt.Errorf("%s is not master yet", master.addr)
	}
	return master, nil
}

// WaitHealthy waits until the running sentinels agree on a running master and know each
// other and its replicas, so that a failover can succeed, and every other running server
// replicates that master.
func (s *Sentinel) WaitHealthy(ctx context.Context) error {
	if err := poll(ctx, s.healthy); err != nil {
		return fmt.Errorf("sentinels not healthy: %w", err)
	}
	return nil
}

func (s *Sentinel) healthy(ctx context.Context) error {
	master, err := s.agreedMaster(ctx)
	if err != nil {
		return err
	}
	for _, r := range running(s.watched) {
		if r == master {
			continue
		}
		if err := inStep(ctx, r, master); err != nil {
			return err
		}
	}
	for _, w := range running(s.watchers) {
		if err := s.informed(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.addr, err)
		}
	}
	return nil
}

// informed checks that a sentinel sees the running servers and sentinels as up.
func (s *Sentinel) informed(ctx context.Context, w *Server) error {
	conn, err := w.session(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	for _, list := range []struct {
		command, flags string // flags of a healthy one
		want           int    // without the master and this sentinel
	}{
		{"REPLICAS", "slave", len(running(s.watched)) - 1},
		{"SENTINELS", "sentinel", len(running(s.watchers)) - 1},
	} {
		reply, err := conn.do("SENTINEL", list.command, sentinelMasterName)
		if err != nil {
			return err
		}
		up := 0
		items, _ := reply.([]any)
		for _, item := range items {
			if record(item)["flags"] == list.flags {
				up++
			}
		}
		if up < list.want {
			return fmt.Errorf("sees %d of %d %s", up, list.want, list.command)
		}
	}
	reply, err := conn.do("SENTINEL", "MASTER", sentinelMasterName)
	if err != nil {
		return err
	}
	if flags := record(reply)["flags"]; flags != "master" {
		return fmt.Errorf("sees the master as %q", flags)
	}
	return nil
}

// record converts an array of names and values.
func record(reply any) map[string]string {
	items, _ := reply.([]any)
	m := make(map[string]string)
	for i := 0; i+1 < len(items); i += 2 {
		name, _ := items[i].(string)
		m[name], _ = items[i+1].(string)
	}
	return m
}
