//go:build linux || darwin

package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// supervise keeps a process running, beginning with the one of s, until the host is
// closed. It is the only goroutine that starts and buries sessions.
func (h *Host) supervise(s *session) {
	defer close(h.gone)
	defer h.spawn.close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-h.closing:
			cancel(ErrClosed)
		case <-h.gone:
		}
	}()
	inARow := 0 // crashes and failed starts
	for {
		why := s.serve()
		if why == nil || time.Since(s.proc.started) >= stableAfter {
			inARow = 0
		}
		for s = nil; s == nil; {
			if why != nil {
				inARow++
			}
			if !h.pause(h.backoff(inARow), why) {
				return
			}
			if s, why = h.launch(ctx); why != nil && ctx.Err() == nil {
				h.log.Error("handler did not start", "error", why)
			}
		}
		h.welcome(s)
	}
}

// backoff is the pause before the next start after so many failures in a row.
func (h *Host) backoff(inARow int) time.Duration {
	if inARow == 0 {
		return 0
	}
	return min(h.cfg.Backoff<<min(inARow-1, 20), h.cfg.MaxBackoff)
}

// pause waits until the next start is due and reports whether there shall be one.
// Tasks need not wait through a long pause.
func (h *Host) pause(d time.Duration, why error) bool {
	h.mu.Lock()
	h.downUntil = time.Now().Add(d)
	if d > patience {
		h.downBecause = fmt.Errorf("%w; its next start is in %v", why, d)
		h.refuse(unavailable(h.downBecause))
	}
	h.mu.Unlock()
	due := time.NewTimer(d)
	defer due.Stop()
	select {
	case <-due.C:
	case <-h.closing:
	}
	select {
	case <-h.closing:
		return false
	default:
		return true
	}
}

// welcome gives tasks to a session that has just begun.
func (h *Host) welcome(s *session) {
	types := slices.Clone(s.hello.GetTypes())
	slices.Sort(types)
	sdk := strings.TrimSpace(s.hello.GetSdk() + " " + s.hello.GetSdkVersion())
	h.log.Info("handler is up", "pid", s.proc.pid(), "sdk", sdk, "version", s.hello.GetVersion(),
		"types", types, "slots", s.slots)
	h.mu.Lock()
	defer h.mu.Unlock()
	st := &h.status
	st.Name, st.PID, st.SDK, st.Version = h.cfg.Name, s.proc.pid(), sdk, s.hello.GetVersion()
	st.Types, st.Slots, st.StartedAt = types, s.slots, s.proc.started
	st.Starts++
	h.types = make(map[string]bool, len(types))
	for _, t := range types {
		h.types[t] = true
	}
	for c := h.queue.first; c != nil; {
		next := c.next
		if !h.types[c.run.GetType()] {
			h.queue.remove(c)
			c.done <- answer{err: h.unserved(c)}
		}
		c = next
	}
	h.session, h.newest, h.downUntil, h.downBecause = s, s, time.Time{}, nil
	s.notify()
}

// drain lets s finish what it runs and then end.
func (h *Host) drain(s *session) {
	h.mu.Lock()
	s.drain = toDrain
	h.mu.Unlock()
	h.retire(s)
	s.notify()
}

// retire gives no more tasks to s.
func (h *Host) retire(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == s {
		h.session = nil
	}
}

// bury answers the calls that s was running when its process died. It returns how that
// happened if nobody had asked for it.
func (h *Host) bury(s *session) error {
	h.retire(s)
	h.mu.Lock()
	unasked := s.fate == silent || (s.fate == crashed && s.drain == serving)
	if unasked {
		h.status.Crashes++
		h.status.LastCrash = s.proc.status
	}
	if s.fate == closed {
		h.interrupted += len(s.running)
	}
	bereft := len(s.running)
	for id, c := range s.running {
		delete(s.running, id)
		c.session = nil
		c.done <- s.lastWords(c)
	}
	h.mu.Unlock()
	if !unasked {
		h.log.Info("handler stopped", "pid", s.proc.pid(), "status", s.proc.status)
		return nil
	}
	h.log.Error("handler died", "pid", s.proc.pid(), "status", s.proc.status,
		"running", bereft, "output", s.proc.out.last())
	return fmt.Errorf("handler %q died (%s) and is not up again yet", h.cfg.Name, s.proc.status)
}
