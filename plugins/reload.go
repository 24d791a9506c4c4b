//go:build linux || darwin

package plugins

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Reload has the program run as c says from now on, or anew if that is what it does
// already: its file may have changed. It returns once a new process is ready; tasks then
// go to it and to those that follow it, and the old ones end when they have finished what
// they run. No task fails or is given to two processes because of it. With an error
// nothing has changed. The name must stay, and every type that was served must be still.
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
	s, err := h.launch(ctx, &cfg)
	if err == nil {
		if err = h.missing(s); err != nil {
			s.discard()
		}
	}
	h.mu.Lock()
	if err != nil {
		h.began(false)
		h.mu.Unlock()
		h.wake.Set()
		return err
	}
	h.cfg = &cfg
	h.inARow, h.notBefore, h.downBecause, h.isDown = 0, time.Time{}, nil, false
	for _, old := range h.sessions {
		old.dismiss()
	}
	h.tell()
	h.mu.Unlock()
	h.welcome(s)
	h.lives.Go(func() { h.live(s) })
	return nil
}

// missing returns an error if the program of s does not serve a type that the host serves:
// its tasks would wait for ever.
func (h *Host) missing(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, typ := range h.status.Types {
		if !slices.Contains(s.hello.GetTypes(), typ) {
			return fmt.Errorf("plugins: reload handler %q: it does not serve the type %q any more, only %s; restart the node with a configuration that fits",
				s.cfg.Name, typ, listed(s.hello.GetTypes()))
		}
	}
	return nil
}

// discard ends a session that was never welcome.
func (s *session) discard() {
	s.cancel()
	s.proc.kill()
	s.release()
}
