package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A failover is one loss of state: replication is asynchronous, and gateways count
// locally until a replica is promoted.
func clusterFaults() []Fault {
	return []Fault{
		onCluster("cluster: master killed", func(m *testenv.Server) error { return m.Kill() }),
		onCluster("cluster: master frozen", func(m *testenv.Server) error { return m.Freeze() }),
		migrating(),
		{Name: "Sentinel: master killed", Losses: oneLoss, Setup: func(tb testing.TB) *Scene {
			tb.Helper()
			s := testenv.StartSentinel(tb, testenv.Config{})
			old := ""
			return &Scene{
				Path: StartGateway(tb, s.URI()), HealsItself: true,
				Begin: func(ctx context.Context) error {
					master, err := s.Master(ctx)
					if err != nil {
						return err
					}
					old = master.Addr()
					return master.Kill()
				},
				End: func(ctx context.Context) error {
					return until(ctx, func() error {
						switch now, err := s.MasterAddr(ctx); {
						case err != nil:
							return err
						case now == old:
							return errors.New("no replica was promoted")
						}
						return nil
					})
				},
			}
		}},
	}
}

// onCluster takes one of three masters away. It ends when a replica was promoted.
func onCluster(name string, begin func(master *testenv.Server) error) Fault {
	return Fault{Name: name, Losses: oneLoss, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		c := testenv.StartCluster(tb, testenv.Config{})
		scene := &Scene{Path: StartGateway(tb, c.URI()), HealsItself: true}
		scene.Begin, scene.End = takeMaster(c, begin)
		return scene
	}}
}

// takeMaster returns how the master of the first slot is taken away, and how to wait
// for its successor.
func takeMaster(c *testenv.Cluster, take func(*testenv.Server) error) (begin, end func(context.Context) error) {
	var old *testenv.Server
	begin = func(ctx context.Context) (err error) {
		if old, err = c.MasterOf(ctx, 0); err != nil {
			return err
		}
		return take(old)
	}
	end = func(ctx context.Context) error {
		return until(ctx, func() error {
			switch now, err := c.MasterOf(ctx, 0); {
			case err != nil:
				return err
			case now == old:
				return errors.New("no replica was promoted")
			}
			return nil
		})
	}
	return begin, end
}

// until calls check until it returns nil.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		pause(ctx, 10*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// migrating moves the slots of every fourth shard to another master while they are
// used. Clients are redirected: no decision is degraded, no state is lost.
func migrating() Fault {
	return Fault{Name: "cluster: slots moving", Expect: Expect{Unnoticed: true}, Setup: func(tb testing.TB) *Scene {
		tb.Helper()
		c := testenv.StartCluster(tb, testenv.Config{})
		return &Scene{Path: StartGateway(tb, c.URI()), HealsItself: true, End: func(ctx context.Context) error {
			const shards = 64 // the default of the store
			for shard := 0; shard < shards; shard += 4 {
				if err := moveSlot(ctx, c, shard*testenv.Slots/shards); err != nil {
					return err
				}
			}
			return nil
		}}
	}}
}

// moveSlot moves a slot to the next master.
func moveSlot(ctx context.Context, c *testenv.Cluster, slot int) error {
	from, err := c.MasterOf(ctx, slot)
	if err != nil {
		return err
	}
	masters, err := c.Masters(ctx)
	if err != nil {
		return err
	}
	for i, m := range masters {
		if m == from {
			migration, err := c.StartMigration(ctx, slot, masters[(i+1)%len(masters)])
			if err != nil {
				return err
			}
			return migration.Finish(ctx)
		}
	}
	return fmt.Errorf("slot %d has no master", slot)
}
