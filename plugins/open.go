//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errStarting is the error of tasks before the first process of a host is up or has failed to start.
var errStarting = errors.New("its first process is still starting")

// Open returns a host that starts the program in the background. If that fails, it tries again with the pauses of
// [Config.Backoff]. Until then tasks end with [task.ErrUnavailable], and [Status.Down] says why. An error of Open is an
// error in c. The caller must close the host.
func Open(c Config) (*Host, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := newHost(&cfg)
	h.downBecause = errStarting
	go h.supervise()
	return h, nil
}

// Tried waits for the first start of the program. It returns nil if the start succeeded, its error if it failed, or the
// cause of ctx if ctx ends first.
func (h *Host) Tried(ctx context.Context) error {
	select {
	case <-h.tried:
	case <-h.gone:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.types == nil {
		return h.downBecause
	}
	return nil
}

// wasTried ends the wait in Tried. mu must be held.
func (h *Host) wasTried() {
	if !h.isTried {
		h.isTried = true
		close(h.tried)
	}
}

// checkRequiredTypes returns an error if s is the first session and its program does not serve one of [Config.Types].
func (h *Host) checkRequiredTypes(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.types != nil {
		return nil
	}
	for _, typ := range s.cfg.Types {
		if !slices.Contains(s.hello.GetTypes(), typ) {
			return fmt.Errorf("plugins: handler %q: it does not serve the type %q, only %s; name another handler for the type, or add the type to the program",
				s.cfg.Name, typ, joinTypes(s.hello.GetTypes()))
		}
	}
	return nil
}
