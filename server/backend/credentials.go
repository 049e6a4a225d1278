package backend

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/server/config"
)

// readInterval is how often files of credentials are read, at most.
const readInterval = 200 * time.Millisecond

// credentials are a user name and a password in files that change. Files that cannot be read
// keep their last values.
type credentials struct {
	below string // where the settings are: redis or mongo
	// user is the name if userFile is empty.
	user, userFile, passwordFile string
	log                          *slog.Logger
	failed                       *logthrottle.Throttle

	mu              sync.Mutex
	at              time.Time // of the last read
	read, effective login
}

type login struct{ user, password string }

// Credentials returns the current user name and password.
type Credentials = func() (user, password string)

// open reads the files for the first time.
func (c *credentials) open() (current Credentials, err error) {
	c.failed = logthrottle.New(time.Minute)
	if c.read, err = c.readFiles(); err != nil {
		return nil, err
	}
	c.effective, c.at = c.read, time.Now()
	return c.current, nil
}

// current returns the credentials. New ones must be read twice: the two files are not written
// at the same time, and each not at once.
func (c *credentials) current() (user, password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= readInterval {
		c.at = time.Now()
		now, err := c.readFiles()
		switch {
		case err != nil:
			c.failed.Log(context.Background(), c.log, slog.LevelError, "cannot read credentials: the last ones stay in use", "error", err)
			now = c.effective
		case now == c.read && now != c.effective:
			c.effective = now
			c.log.Info("the credentials have changed", "setting", c.below+".password-file")
		}
		c.read = now
	}
	return c.effective.user, c.effective.password
}

func (c *credentials) readFiles() (read login, err error) {
	if read.user = c.user; c.userFile != "" {
		if read.user, err = config.ReadCredential(c.userFile); err != nil {
			return read, fmt.Errorf("%s.username-file %w", c.below, err)
		}
	}
	if read.password, err = config.ReadCredential(c.passwordFile); err != nil {
		err = fmt.Errorf("%s.password-file %w", c.below, err)
	}
	return read, err
}
