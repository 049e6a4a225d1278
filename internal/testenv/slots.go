package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot returns the hash slot of a key: CRC16 of the key, or of the text between the first
// '{' and the next '}' if that is not empty.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // XMODEM: polynomial 0x1021, starting at 0
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % Slots
}

// Migration is a slot that moves from one master to another. Until Finish, the source
// answers for the keys it still has and redirects clients (ASK) for the rest.
type Migration struct {
	Slot     int
	From, To *Server

	cluster    *Cluster
	fromID, id string // of the source and of the target
}

// StartMigration starts to migrate a slot to another master. It moves no key yet.
func (c *Cluster) StartMigration(ctx context.Context, slot int, to *Server) (*Migration, error) {
	v, err := c.view(ctx)
	if err != nil {
		return nil, err
	}
	from, err := c.MasterOf(ctx, slot)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("%s owns slot %d already", to.addr, slot)
	}
	source, errFrom := v.find(from)
	target, errTo := v.find(to)
	if err := errors.Join(errFrom, errTo); err != nil {
		return nil, err
	}
	m := &Migration{Slot: slot, From: from, To: to, cluster: c, fromID: source.id, id: target.id}
	if err := m.announce(ctx); err != nil {
		return nil, err
	}
	_, err = from.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", m.id)
	return m, err
}

// announce tells the target, which would otherwise redirect clients back to the source.
func (m *Migration) announce(ctx context.Context) error {
	_, err := m.To.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "IMPORTING", m.fromID)
	return err
}

// MoveKeys moves the given keys of the slot, or all remaining ones if none are given.
func (m *Migration) MoveKeys(ctx context.Context, keys ...string) error {
	if len(keys) > 0 {
		return m.move(ctx, keys)
	}
	for {
		reply, err := m.From.Do(ctx, "CLUSTER", "GETKEYSINSLOT", m.Slot, 100)
		if err != nil {
			return err
		}
		items, _ := reply.([]any)
		if len(items) == 0 {
			return nil
		}
		for _, item := range items {
			keys = append(keys, item.(string))
		}
		if err := m.move(ctx, keys); err != nil {
			return err
		}
		keys = keys[:0]
	}
}

func (m *Migration) move(ctx context.Context, keys []string) error {
	args := []any{"MIGRATE", "127.0.0.1", m.To.port, "", 0, commandTimeout.Milliseconds()}
	if m.To.admin != "" {
		args = append(args, "AUTH2", m.To.admin, m.To.adminPass)
	}
	args = append(args, "KEYS")
	for _, key := range keys {
		args = append(args, key)
	}
	_, err := m.From.Do(ctx, args...)
	if err != nil && strings.Contains(err.Error(), "MOVED") { // the target was taken for failed, and has forgotten it
		if err = m.announce(ctx); err == nil {
			_, err = m.From.Do(ctx, args...)
		}
	}
	return err
}

// Finish moves the remaining keys, assigns the slot to the target and returns when every
// node knows.
func (m *Migration) Finish(ctx context.Context) error {
	if err := m.MoveKeys(ctx); err != nil {
		return err
	}
	masters, err := m.cluster.Masters(ctx)
	if err != nil {
		return err
	}
	// The target first: it gets a new epoch, and the slot always has an owner.
	owners := []*Server{m.To, m.From}
	for _, s := range masters {
		if s != m.To && s != m.From {
			owners = append(owners, s)
		}
	}
	for _, s := range owners {
		if !s.Running() {
			continue
		}
		if _, err := s.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, "NODE", m.id); err != nil {
			return err
		}
	}
	return m.cluster.WaitHealthy(ctx)
}
