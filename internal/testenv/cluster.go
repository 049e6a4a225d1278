package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Cluster is a Redis Cluster of three masters with a replica each.
type Cluster struct {
	*group
	nodes []*Server
}

const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters

	// nodeTimeout is that of a cluster without a NodeTimeout.
	nodeTimeout = 1500 * time.Millisecond
)

// StartCluster starts a cluster for one test and stops it with the test.
func StartCluster(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	return start(tb, cfg, startCluster)
}

func startCluster(ctx context.Context, cfg Config) (*Cluster, error) {
	g, err := newGroup(cfg)
	if err != nil {
		return nil, err
	}
	lines := []string{
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		"cluster-announce-ip 127.0.0.1",
		fmt.Sprintf("cluster-node-timeout %d", cmp.Or(cfg.NodeTimeout, nodeTimeout).Milliseconds()),
		"cluster-replica-validity-factor 0", // a replica may always take over
		"cluster-migration-barrier 1000",    // replicas stay with their master
	}
	if g.certs != nil {
		lines = append(lines, "tls-cluster yes")
	}
	specs := make([]spec, clusterNodes)
	for i := range specs {
		specs[i] = spec{role: "node" + strconv.Itoa(i), lines: lines}
	}
	c := &Cluster{group: g}
	if c.nodes, err = g.startAll(ctx, specs); err == nil {
		err = c.form(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return c, nil
}

// form creates a cluster from the nodes: the first half are masters, and node i+3
// replicates node i.
func (c *Cluster) form(ctx context.Context) error {
	ids := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		conn, err := n.session(ctx)
		if err != nil {
			return err
		}
		err = c.introduce(conn, i)
		if err == nil {
			ids[i], err = conn.text("CLUSTER", "MYID")
		}
		conn.close()
		if err != nil {
			return fmt.Errorf("%s: %w", n.addr, err)
		}
	}
	err := poll(ctx, func(ctx context.Context) error {
		for _, n := range c.nodes {
			v, err := c.viewOf(ctx, n)
			if err != nil {
				return err
			}
			if got := len(v.healthyNodes()); got != len(c.nodes) {
				return fmt.Errorf("%s knows %d of %d nodes", n.addr, got, len(c.nodes))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("nodes meet: %w", err)
	}
	for i, n := range c.nodes[clusterMasters:] {
		if _, err := n.Do(ctx, "CLUSTER", "REPLICATE", ids[i]); err != nil {
			return err
		}
	}
	return c.WaitHealthy(ctx)
}

// introduce sets the epoch and slots of node i and lets it meet those before it. Setting
// distinct epochs avoids an election; meeting all nodes avoids waiting for gossip.
func (c *Cluster) introduce(conn *session, i int) error {
	if _, err := conn.do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
		return err
	}
	if i < clusterMasters {
		args := []any{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is not in 6.2
		for slot := i * Slots / clusterMasters; slot < (i+1)*Slots/clusterMasters; slot++ {
			args = append(args, slot)
		}
		if _, err := conn.do(args...); err != nil {
			return err
		}
	}
	for _, other := range c.nodes[:i] {
		if _, err := conn.do("CLUSTER", "MEET", "127.0.0.1", other.port); err != nil {
			return err
		}
	}
	return nil
}

// Nodes returns all six nodes, running or not.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrsOf(c.nodes) }

// Addr returns the address of one node.
func (c *Cluster) Addr() string { return c.nodes[0].addr }

// URI returns a URI with all nodes and the credentials: redis://user:password@host1,host2,...
func (c *Cluster) URI() string { return c.uri("redis", c.Addrs(), "") }

// Masters returns the masters in the order of their slots, as the first running node
// sees them. After a failure the nodes may disagree until WaitHealthy.
func (c *Cluster) Masters(ctx context.Context) ([]*Server, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	var masters []*Server
	for _, n := range v.masters() {
		if s := c.byAddr(n.addr); s != nil {
			masters = append(masters, s)
		}
	}
	return masters, nil
}

// MasterOf returns the master of a slot, as the first running node sees it.
func (c *Cluster) MasterOf(ctx context.Context, slot int) (*Server, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range v.masters() {
		if s := c.byAddr(n.addr); s != nil && n.owns(slot) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("slot %d has no master", slot)
}

// Replicas returns the replicas of a master, as the first running node sees them.
func (c *Cluster) Replicas(ctx context.Context, master *Server) ([]*Server, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	m, err := v.find(master)
	if err != nil {
		return nil, err
	}
	var replicas []*Server
	for _, n := range v {
		if s := c.byAddr(n.addr); s != nil && n.master == m.id {
			replicas = append(replicas, s)
		}
	}
	return replicas, nil
}

// Failover makes a running replica the master, coordinated with master if it runs, and
// returns the replica when the cluster is healthy again.
func (c *Cluster) Failover(ctx context.Context, master *Server) (*Server, error) {
	replicas, err := c.Replicas(ctx, master)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(replicas, (*Server).Running)
	if i < 0 {
		return nil, fmt.Errorf("%s has no running replica", master.addr)
	}
	next := replicas[i]
	const patience = 5 * time.Second // Redis aborts a failover silently after this time
	var asked time.Time
	err = poll(ctx, func(ctx context.Context) error {
		info, err := next.Info(ctx, "replication")
		if err != nil {
			return err
		}
		if info["role"] == "master" {
			return nil
		}
		if time.Since(asked) > patience {
			args := []any{"CLUSTER", "FAILOVER"}
			if !master.Running() {
				args = append(args, "FORCE")
			}
			if _, err := next.Do(ctx, args...); err != nil {
				return err
			}
			asked = time.Now()
		}
		return fmt.Errorf("%s is still a replica", next.addr)
	})
	if err != nil {
		return nil, fmt.Errorf("fail over from %s: %w", master.addr, err)
	}
	return next, c.WaitHealthy(ctx)
}

// byAddr returns the node at an address, or nil.
func (c *Cluster) byAddr(addr string) *Server { return findAddr(c.nodes, addr) }

func (c *Cluster) running() []*Server { return running(c.nodes) }

func running(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.Running() })
}

func addrsOf(servers []*Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.addr
	}
	return addrs
}

func findAddr(servers []*Server, addr string) *Server {
	i := slices.IndexFunc(servers, func(s *Server) bool { return s.addr == addr })
	if i < 0 {
		return nil
	}
	return servers[i]
}
