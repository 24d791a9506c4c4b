//go:build linux || darwin

package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
)

// supervise keeps as many processes running as the pool wants until the host is closed and no process is left. No other
// goroutine changes the number of processes, except for Start and Reload.
func (h *Host) supervise() {
	defer close(h.gone)
	defer h.starter.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	closing := h.closing
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, over := h.adjust(ctx, time.Now())
		if over {
			return
		}
		timer.Stop()
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-h.wake.C():
		case <-due:
		case <-closing:
			closing = nil
			cancel(ErrClosed)
		}
	}
}

// adjust carries out the plan of the pool. It returns when to call it again, and whether the host is closed and no
// process is left.
func (h *Host) adjust(ctx context.Context, now time.Time) (next time.Time, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosing {
		h.drainAll()
		return time.Time{}, len(h.dispatch.Sessions()) == 0 && h.starting+h.startingAlone == 0
	}
	census, members := h.takeCensus(now)
	cfg := h.cfg
	pool := cfg.pool()
	if h.types == nil { // no task can wait for a handler that was never up
		pool.least = max(1, pool.least)
	}
	plan := pool.decide(census)
	for range plan.start {
		h.starting++
		h.processes.Go(func() { h.startAndRun(ctx, cfg, false) })
	}
	for range plan.startAlone {
		h.startingAlone++
		h.processes.Go(func() { h.startAndRun(ctx, cfg, true) })
	}
	for _, i := range plan.drain {
		members[i].Drain()
	}
	h.notifyUses()
	for _, s := range h.dispatch.Sessions() {
		if until := s.Owner.outdatedAt(); s.Owner.serves() && until.After(now) && (plan.next.IsZero() || until.Before(plan.next)) {
			plan.next = until
		}
	}
	return plan.next, false
}

// drainAll has all processes end after their running calls. mu must be held.
func (h *Host) drainAll() {
	for _, s := range h.dispatch.Sessions() {
		s.Drain()
	}
}

// takeCensus returns the census of the processes, and the sessions of its members in the same order. mu must be held.
func (h *Host) takeCensus(now time.Time) (census, []*session) {
	c := census{
		now: now, waiting: h.queue.Len() + h.wanted(), alone: h.alone.Len(), starting: h.starting, notBefore: h.notBefore,
		aloneFree: h.startingAlone, aloneTotal: h.startingAlone,
	}
	var members []*session
	for _, base := range h.dispatch.Sessions() {
		switch s := base.Owner; {
		case s.alone:
			c.aloneTotal++
			if s.Serves() {
				c.aloneFree++
			}
		case s.Retired() && !s.Draining():
			c.starting++ // it is dying, and is replaced when its end is known
		case !s.serves():
			c.leaving++
		default:
			members = append(members, s)
			c.members = append(c.members, member{
				running: s.Running(), slots: s.Slots(), idleSince: s.idleSince, outdated: s.outdated(now),
			})
		}
	}
	return c, members
}

// startAndRun starts a process and runs its session until it ends.
func (h *Host) startAndRun(ctx context.Context, cfg *Config, alone bool) {
	s, err := h.launch(ctx, cfg, alone)
	if err == nil {
		if err = h.checkRequiredTypes(s); err != nil {
			s.discard()
		}
	}
	if err != nil {
		h.mu.Lock()
		h.startEnded(alone)
		news := false
		if ctx.Err() == nil {
			h.recordFailure(err)
			news = h.worthLogging(err)
		}
		failuresInARow := h.failuresInARow
		h.mu.Unlock()
		if news {
			h.log.Error("handler did not start", "error", err, "times_in_a_row", failuresInARow)
		}
		h.wake.Set()
		return
	}
	h.addSession(s)
	h.runSession(s)
}

// startEnded counts a process as no longer being started. mu must be held.
func (h *Host) startEnded(alone bool) {
	if alone {
		h.startingAlone--
	} else {
		h.starting--
	}
}

// runSession runs s until its process has ended.
func (h *Host) runSession(s *session) {
	s.serve()
	h.wake.Set()
}

// recordFailure records that a process could not be started or has died, and delays the next start if that happens in a
// row. mu must be held.
func (h *Host) recordFailure(why error) {
	h.failuresInARow++
	d := backoff(h.cfg, h.failuresInARow)
	h.notBefore = time.Now().Add(d)
	h.downBecause = why
	h.isDown = h.isDown || !h.up()
	defer h.notifyUses()
	defer h.wasTried()
	if d <= maxPause {
		return
	}
	h.downBecause = fmt.Errorf("%w; its next start is at %s", why, h.notBefore.UTC().Format(time.RFC3339))
	if !h.up() { // tasks do not wait for a long pause
		h.refuseAll(h.downBecause)
	}
}

// worthLogging reports whether to log a failed start: if its error differs from the one before, or if it is the 1st,
// 2nd, 4th, 8th ... failure in a row. mu must be held.
func (h *Host) worthLogging(why error) bool {
	text := why.Error()
	again := text == h.lastFailure
	h.lastFailure = text
	return !again || h.failuresInARow&(h.failuresInARow-1) == 0
}

// backoff returns the pause before the next start.
func backoff(cfg *Config, failuresInARow int) time.Duration {
	if failuresInARow == 0 {
		return 0
	}
	return min(cfg.Backoff<<min(failuresInARow-1, 20), cfg.MaxBackoff)
}

// addSession adds the session of a process that counted as starting. It gets tasks from now on.
func (h *Host) addSession(s *session) {
	types := slices.Clone(s.hello.GetTypes())
	slices.Sort(types)
	sdk := strings.TrimSpace(s.hello.GetSdk() + " " + s.hello.GetSdkVersion())
	h.log.Info("handler is up", "pid", s.proc.PID(), "sdk", sdk, "version", s.hello.GetVersion(),
		"types", types, "slots", s.Slots())
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notifyUses()
	h.startEnded(s.alone)
	h.status.Starts++
	s.idleSince = time.Now()
	h.dispatch.Add(s.Session)
	h.wake.Set()        // it may replace another, or the host may be closed
	if s.cfg != h.cfg { // the configuration was reloaded during the start
		s.Drain()
		return
	}
	if s.alone {
		return
	}
	h.isDown = false
	st := &h.status
	st.Name, st.PID, st.SDK, st.Version = s.cfg.Name, s.proc.PID(), sdk, s.hello.GetVersion()
	st.Types, st.Slots, st.StartedAt = types, s.Slots(), s.proc.started
	h.types = make(map[string]bool, len(types))
	for _, t := range types {
		h.types[t] = true
	}
	h.wasTried()
	for _, q := range []*dispatch.Queue[*session]{&h.queue, &h.alone} {
		q.Refuse(func(c *call) error {
			if h.types[c.Run.GetType()] {
				return nil
			}
			return h.unserved(c)
		})
	}
}

// sessionEnded answers the calls that s was running when its process ended, and logs the end.
func (h *Host) sessionEnded(s *session) {
	unasked, running := h.removeSession(s)
	if !unasked {
		h.log.Info("handler stopped", "pid", s.proc.PID(), "status", s.proc.exit.String())
		return
	}
	h.log.Error("handler died", "pid", s.proc.PID(), "status", s.proc.exit.String(),
		"running", running, "max_rss", s.proc.exit.MaxRSS, "output", s.proc.out.last())
}

// removeSession removes s after its process has ended, and answers its calls. It returns whether the host had not asked
// for the end, and how many calls were running.
func (h *Host) removeSession(s *session) (unasked bool, running int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notifyUses()
	running = s.Running()
	unasked = s.endReason == unresponsive || s.endReason == crashed && (!s.Draining() || running > 0)
	if s.endReason == closed {
		h.interrupted += running
	}
	h.dispatch.Remove(s.Session, func(c *call) error {
		if s.endReason == crashed || s.endReason == unresponsive {
			h.quarantine.add(c.ID())
		}
		return s.endError(c, running)
	})
	if !unasked {
		return false, running
	}
	h.status.Crashes++
	h.status.LastCrash = s.proc.exit.String()
	if s.alone { // its task is the cause and waits for its retry; other tasks need not wait
		return true, running
	}
	if s.Finished() > 0 || time.Since(s.proc.started) >= stableAfter {
		h.failuresInARow = 0
	}
	h.recordFailure(fmt.Errorf("handler %q died (%s) and is not up again yet", s.cfg.Name, s.proc.exit.String()))
	return true, running
}
