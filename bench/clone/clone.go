// Package clone runs commands in a clone of the repository as someone does who has nothing else:
// every cache is empty.
package clone

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Clone is a clone with caches of its own, which are empty at first.
type Clone struct{ folder, home string }

// New clones the repository at root into a folder that [Clone.Close] removes.
func New(ctx context.Context, root string) (*Clone, error) {
	folder, err := os.MkdirTemp("", "fluxgate-clone-")
	if err != nil {
		return nil, err
	}
	c := &Clone{folder: filepath.Join(folder, "fluxgate"), home: filepath.Join(folder, "home")}
	if text, err := exec.CommandContext(ctx, "git", "clone", "--quiet", root, c.folder).CombinedOutput(); err != nil { //nolint:gosec // what the figures say
		_ = c.Close()
		return nil, fmt.Errorf("cloning %s: %w\n%s", root, err, text)
	}
	return c, nil
}

// Close removes the clone and the caches.
func (c *Clone) Close() error {
	_ = exec.Command("chmod", "-R", "u+w", filepath.Dir(c.folder)).Run() //nolint:gosec // modules are read-only
	return os.RemoveAll(filepath.Dir(c.folder))
}

// Minutes types commands into a shell in the clone, and returns how long they take and what
// they print.
func (c *Clone) Minutes(ctx context.Context, commands string) (minutes float64, output string, err error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", commands) //nolint:gosec // what the figures say
	cmd.Dir = c.folder
	cmd.Env = append(os.Environ(), "HOME="+c.home, "GOPATH="+c.home+"/go", "GOMODCACHE="+c.home+"/go/pkg/mod", "GOCACHE="+c.home+"/go-build",
		"PATH="+c.home+"/go/bin:"+os.Getenv("PATH"), "npm_config_cache="+c.home+"/npm", "XDG_CACHE_HOME="+c.home+"/cache")
	start := time.Now()
	text, err := cmd.CombinedOutput()
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w\n%s", commands, err, text[max(0, len(text)-20_000):])
	}
	return time.Since(start).Minutes(), string(text), nil
}
