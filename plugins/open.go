//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errStarting is why a host that was never up takes no tasks until its first start failed.
var errStarting = errors.New("its first process is still starting")

// Open returns a host that starts the program in the background. As long as that fails it
// tries again, with the pauses of [Config.Backoff]; its tasks are unavailable until then, and
// [Status.Down] says why. An error is about c alone. The caller owes the host its Close.
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

// Tried waits until the first start of the program has succeeded, and returns nil, or has
// failed, and returns why. When ctx ends before, it returns the cause of that.
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

// wasTried ends the wait for the first start. It is called with mu held.
func (h *Host) wasTried() {
	if !h.isTried {
		h.isTried = true
		close(h.tried)
	}
}

// unfit returns an error if the program of s, which is to be the first that is up, does not
// serve a type that it has to.
func (h *Host) unfit(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.types != nil {
		return nil
	}
	for _, typ := range s.cfg.Types {
		if !slices.Contains(s.hello.GetTypes(), typ) {
			return fmt.Errorf("plugins: handler %q: it does not serve the type %q, only %s; name another handler for the type, or teach it to",
				s.cfg.Name, typ, listed(s.hello.GetTypes()))
		}
	}
	return nil
}
