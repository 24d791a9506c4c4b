//go:build linux || darwin

package plugins

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Reload runs the program with the configuration c from now on. If c is the same as before, the program is started
// again, because its file may have changed. Reload returns when a new process is ready. Tasks then go to it and to later
// processes, and the old processes end after their running tasks. No task fails or runs twice because of it. The name
// must not change, and the program must still serve every type that it served. After an error nothing has changed.
func (h *Host) Reload(ctx context.Context, c Config) error {
	cfg, err := c.withDefaults()
	if err != nil {
		return err
	}
	h.mu.Lock()
	name := h.cfg.Name
	closed := h.isClosing
	if !closed && cfg.Name == name {
		h.starting++
	}
	h.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("plugins: reload handler %q: %w", name, ErrClosed)
	case cfg.Name != name:
		return fmt.Errorf("plugins: reload handler %q: its name cannot become %q", name, cfg.Name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-h.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	s, err := h.launch(ctx, &cfg, false)
	if err == nil {
		if err = h.checkServedTypes(s); err != nil {
			s.discard()
		}
	}
	h.mu.Lock()
	if err != nil {
		h.startEnded(false)
		h.mu.Unlock()
		h.wake.Set()
		return err
	}
	h.cfg = &cfg
	h.failuresInARow, h.notBefore, h.downBecause, h.isDown = 0, time.Time{}, nil, false
	h.drainAll()
	h.notifyUses()
	h.mu.Unlock()
	h.addSession(s)
	h.processes.Go(func() { h.runSession(s) })
	return nil
}

// checkServedTypes returns an error if the program of s does not serve a type that the host serves: tasks of the type
// would wait for ever.
func (h *Host) checkServedTypes(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, typ := range h.status.Types {
		if !slices.Contains(s.hello.GetTypes(), typ) {
			return fmt.Errorf("plugins: reload handler %q: it does not serve the type %q any more, only %s; restart the node with a configuration that fits",
				s.cfg.Name, typ, joinTypes(s.hello.GetTypes()))
		}
	}
	return nil
}

// discard ends a session that was not added to the host.
func (s *session) discard() {
	s.cancel()
	s.proc.kill()
	s.release()
}
