package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// diskFaults fill the disk of a server. Decisions do not need it: none is degraded.
func diskFaults() []Fault {
	return []Fault{
		{Name: "disk full for the last valid copy of the rules", Under: "server", Expect: Expect{Unnoticed: true}, Setup: fullForCopies},
		{Name: "disk full for the audit", Under: "server", Expect: Expect{Unnoticed: true}, Setup: fullForAudit},
	}
}

// smallDisk mounts a file system of 64 KiB, and skips the test where that is not
// permitted.
func smallDisk(tb testing.TB) (folder string) {
	tb.Helper()
	folder = tb.TempDir()
	if out, err := exec.CommandContext(tb.Context(), "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder).CombinedOutput(); err != nil {
		tb.Skipf("a full disk needs the permission to mount one: %v: %s", err, out)
	}
	tb.Cleanup(func() {
		// Not the context of the test, which has ended.
		if out, err := exec.Command("umount", "-l", folder).CombinedOutput(); err != nil {
			tb.Errorf("umount: %v: %s", err, out)
		}
	})
	return folder
}

const filler = "filler"

// fill writes to a folder until its disk is full.
func fill(folder string) error {
	err := os.WriteFile(filepath.Join(folder, filler), make([]byte, 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	return nil
}

// fullForCopies edits the rules while no copy can be written: they are in effect, and
// the log says why there is no copy.
func fullForCopies(tb testing.TB) *Scene {
	tb.Helper()
	folder := smallDisk(tb)
	s := testenv.StartStandalone(tb, testenv.Config{})
	d := startWithRulesInRedis(tb, s, "rules.copies="+folder)
	edited := withDenial(tb)
	return &Scene{
		Path: d,
		Begin: func(ctx context.Context) error {
			if err := fill(folder); err != nil {
				return err
			}
			return d.put(ctx, edited)
		},
		End: func(ctx context.Context) error {
			if err := d.denies(ctx); err != nil {
				return err
			}
			if !strings.Contains(d.Log(), "no space left on device") {
				return errors.New("the log does not say that the copy could not be written")
			}
			return os.Remove(filepath.Join(folder, filler))
		},
		Verify: func(ctx context.Context) error {
			if err := d.put(ctx, ruleSet(tb)); err != nil {
				return fmt.Errorf("an edit after the fault: %w", err)
			}
			ctx, cancel := context.WithTimeout(ctx, editTimeout)
			defer cancel()
			return until(ctx, func() error {
				copied, err := filepath.Glob(filepath.Join(folder, "*"+ruleSetID+"*"))
				if err == nil && len(copied) == 0 {
					err = errors.New("the rules are not copied after the fault")
				}
				return err
			})
		},
	}
}

// fullForAudit edits the rules while the audit cannot be written: the edit is refused.
func fullForAudit(tb testing.TB) *Scene {
	tb.Helper()
	folder := smallDisk(tb)
	s := testenv.StartStandalone(tb, testenv.Config{})
	d := startWithRulesInRedis(tb, s, "server.audit.file="+filepath.Join(folder, "audit.log"))
	edited := withDenial(tb)
	return &Scene{
		Path: d,
		Begin: func(ctx context.Context) error {
			if err := fill(folder); err != nil {
				return err
			}
			// The last block of the file may have room for a few lines.
			return until(ctx, func() error {
				if err := d.put(ctx, edited); err == nil {
					return errors.New("an edit without an audit is accepted")
				}
				return nil
			})
		},
		End:    func(context.Context) error { return os.Remove(filepath.Join(folder, filler)) },
		Verify: d.verifyEdit(tb, d),
	}
}

// startWithRulesInRedis starts a server with the rules of the suite in Redis.
func startWithRulesInRedis(tb testing.TB, s *testenv.Server, set ...string) *Daemon {
	tb.Helper()
	d := StartDaemon(tb, "", append([]string{"mongo.enabled=false", "redis.uri=" + s.URI(), polling}, set...)...)
	if err := d.put(tb.Context(), ruleSet(tb)); err != nil {
		tb.Fatal(err)
	}
	testenv.Eventually(tb, "the rules are in effect", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Second)
		defer cancel()
		return d.Healthy(ctx)
	})
	return d
}
