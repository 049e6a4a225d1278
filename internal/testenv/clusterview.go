package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// view is the cluster as one node sees it: CLUSTER NODES, sorted by address.
type view []nodeView

type nodeView struct {
	id, addr, master string
	flags            []string
	connected        bool
	slots            [][2]int // first and last of each range
}

func (n nodeView) is(flag string) bool { return slices.Contains(n.flags, flag) }

func (n nodeView) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// healthy reports whether the viewer is connected to the node.
func (n nodeView) healthy() bool {
	if slices.ContainsFunc([]string{"fail", "fail?", "handshake", "noaddr"}, n.is) {
		return false
	}
	return n.connected || n.is("myself")
}

func parseView(text string) (view, error) {
	var v view
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES: %q has too few fields", line)
		}
		// "127.0.0.1:port@busport,hostname", the hostname since 7.0.
		addr, _, _ := strings.Cut(f[1], "@")
		n := nodeView{
			id:        f[0],
			addr:      addr,
			flags:     strings.Split(f[2], ","),
			master:    f[3],
			connected: f[7] == "connected",
		}
		for _, r := range f[8:] {
			if strings.HasPrefix(r, "[") {
				continue // migrating: "[slot->-node]"
			}
			first, last, isRange := strings.Cut(r, "-")
			if !isRange {
				last = first
			}
			a, errA := strconv.Atoi(first)
			b, errB := strconv.Atoi(last)
			if err := errors.Join(errA, errB); err != nil {
				return nil, fmt.Errorf("CLUSTER NODES: slots %q: %w", r, err)
			}
			n.slots = append(n.slots, [2]int{a, b})
		}
		v = append(v, n)
	}
	slices.SortFunc(v, func(a, b nodeView) int { return strings.Compare(a.addr, b.addr) })
	return v, nil
}

func (v view) healthyNodes() []nodeView {
	return slices.DeleteFunc(slices.Clone(v), func(n nodeView) bool { return !n.healthy() })
}

// masters returns the nodes that own slots, in the order of the slots.
func (v view) masters() []nodeView {
	m := slices.DeleteFunc(slices.Clone(v), func(n nodeView) bool { return !n.is("master") || len(n.slots) == 0 })
	slices.SortFunc(m, func(a, b nodeView) int { return a.slots[0][0] - b.slots[0][0] })
	return m
}

func (v view) find(s *Server) (nodeView, error) {
	for _, n := range v {
		if n.addr == s.addr {
			return n, nil
		}
	}
	return nodeView{}, fmt.Errorf("%s is not in the cluster", s.addr)
}

// layout returns masters, replicas and slots. It is the same on every node when they
// agree.
func (v view) layout() string {
	var b strings.Builder
	for _, n := range v {
		fmt.Fprintln(&b, n.id, n.addr, n.is("master"), n.master, n.slots)
	}
	return b.String()
}

// view returns the cluster as the first running node sees it.
func (c *Cluster) view(ctx context.Context) (view, error) {
	nodes := c.running()
	if len(nodes) == 0 {
		return nil, errors.New("no node is running")
	}
	return c.viewOf(ctx, nodes[0])
}

func (c *Cluster) viewOf(ctx context.Context, n *Server) (view, error) {
	conn, err := n.session(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	text, err := conn.text("CLUSTER", "NODES")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.addr, err)
	}
	return parseView(text)
}

// WaitHealthy waits until the running nodes (neither killed, stopped nor frozen) form a
// working cluster: they agree on masters and slots, report the state ok, own every slot,
// and every running replica is connected to its master.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	if err := poll(ctx, c.healthy); err != nil {
		return fmt.Errorf("cluster not healthy: %w", err)
	}
	return nil
}

func (c *Cluster) healthy(ctx context.Context) error {
	nodes := c.running()
	if len(nodes) == 0 {
		return errors.New("no node is running")
	}
	var agreed view
	for _, n := range nodes {
		v, err := c.viewOf(ctx, n)
		if err != nil {
			return err
		}
		if agreed == nil {
			agreed = v
		}
		if v.layout() != agreed.layout() {
			return fmt.Errorf("%s and %s disagree:\n%s%s", nodes[0].addr, n.addr, agreed.layout(), v.layout())
		}
		if err := v.complete(nodes); err != nil {
			return fmt.Errorf("as %s sees it: %w", n.addr, err)
		}
		if err := stateOK(ctx, n); err != nil {
			return err
		}
	}
	return c.replicated(ctx, agreed)
}

// replicated checks every running replica against its master.
func (c *Cluster) replicated(ctx context.Context, v view) error {
	for _, m := range v.masters() {
		for _, r := range v {
			replica := c.byAddr(r.addr)
			if replica == nil || r.master != m.id || !replica.Running() {
				continue
			}
			if err := inStep(ctx, replica, c.byAddr(m.addr)); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete checks that every running node is connected and that together they own every
// slot.
func (v view) complete(running []*Server) error {
	covered := 0
	for _, s := range running {
		n, err := v.find(s)
		if err != nil {
			return err
		}
		if !n.healthy() {
			return fmt.Errorf("%s is %s, connected: %t", n.addr, strings.Join(n.flags, ","), n.connected)
		}
		for _, r := range n.slots {
			covered += r[1] - r[0] + 1
		}
	}
	if covered != Slots {
		return fmt.Errorf("%d of %d slots have a running master", covered, Slots)
	}
	return nil
}

// stateOK checks the cluster state that a node reports.
func stateOK(ctx context.Context, n *Server) error {
	reply, err := n.Do(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	if state := fields(text)["cluster_state"]; state != "ok" {
		return fmt.Errorf("%s: cluster_state is %q", n.addr, state)
	}
	return nil
}
