//go:build linux || darwin

package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// supervise keeps as many processes running as the pool wants, until the host is closed
// and none is left. It is the only goroutine that has processes started or ended for
// their number.
func (h *Host) supervise() {
	defer close(h.gone)
	defer h.starter.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	closing := h.closing
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, over := h.arrange(ctx, time.Now())
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

// arrange does what the pool decides. It returns when to do so again, and whether the
// host is closed and nothing is left of it.
func (h *Host) arrange(ctx context.Context, now time.Time) (next time.Time, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosing {
		for _, s := range h.sessions {
			s.dismiss()
		}
		return time.Time{}, len(h.sessions) == 0 && h.starting+h.startingAlone == 0
	}
	census, members := h.count(now)
	cfg := h.cfg
	pool := cfg.pool()
	if h.types == nil { // nobody waits for a handler that was never up
		pool.least = max(1, pool.least)
	}
	plan := pool.decide(census)
	for range plan.start {
		h.starting++
		h.lives.Go(func() { h.raise(ctx, cfg, false) })
	}
	for range plan.startAlone {
		h.startingAlone++
		h.lives.Go(func() { h.raise(ctx, cfg, true) })
	}
	for _, i := range plan.drain {
		members[i].dismiss()
	}
	h.tell()
	for _, s := range h.sessions {
		if until := s.wornAt(); s.serves() && until.After(now) && (plan.next.IsZero() || until.Before(plan.next)) {
			plan.next = until
		}
	}
	return plan.next, false
}

// count returns what the pool decides by, and the sessions that are its members. It is
// called with mu held.
func (h *Host) count(now time.Time) (census, []*session) {
	c := census{
		now: now, waiting: h.queue.n + h.wanted(), alone: h.alone.n, starting: h.starting, notBefore: h.notBefore,
		awaited: h.startingAlone, loners: h.startingAlone,
	}
	var members []*session
	for _, s := range h.sessions {
		switch {
		case s.alone:
			c.loners++
			if s.taken == 0 && s.drain == serving && !s.retired {
				c.awaited++
			}
		case s.retired && s.drain == serving:
			c.starting++ // it is dying, and replaced when it is known how it died
		case !s.serves():
			c.leaving++
		default:
			members = append(members, s)
			c.members = append(c.members, member{
				running: len(s.running), slots: s.slots, idleSince: s.idleSince, worn: s.worn(now),
			})
		}
	}
	return c, members
}

// raise starts a process and lives through its life.
func (h *Host) raise(ctx context.Context, cfg *Config, alone bool) {
	s, err := h.launch(ctx, cfg)
	if err == nil {
		if err = h.unfit(s); err != nil {
			s.discard()
		}
	}
	if err != nil {
		h.mu.Lock()
		h.began(alone)
		news := false
		if ctx.Err() == nil {
			h.failed(err)
			news = h.isNews(err)
		}
		inARow := h.inARow
		h.mu.Unlock()
		if news {
			h.log.Error("handler did not start", "error", err, "times_in_a_row", inARow)
		}
		h.wake.Set()
		return
	}
	s.alone = alone
	h.welcome(s)
	h.live(s)
}

// began takes a process out of the number of those that start. It is called with mu held.
func (h *Host) began(alone bool) {
	if alone {
		h.startingAlone--
	} else {
		h.starting--
	}
}

// live runs s until its process is dead.
func (h *Host) live(s *session) {
	s.serve()
	h.wake.Set()
}

// failed notes that a process could not be started or has died, and has the next one wait
// if that happens in a row. It is called with mu held.
func (h *Host) failed(why error) {
	h.inARow++
	d := backoff(h.cfg, h.inARow)
	h.notBefore = time.Now().Add(d)
	h.downBecause = why
	h.isDown = h.isDown || !h.up()
	defer h.tell()
	defer h.wasTried()
	if d <= patience {
		return
	}
	h.downBecause = fmt.Errorf("%w; its next start is at %s", why, h.notBefore.UTC().Format(time.RFC3339))
	if !h.up() { // tasks need not wait through a long pause
		h.refuse(unavailable(h.downBecause))
	}
}

// isNews reports whether a failed start is worth a line of the log: it failed for another
// reason than the one before, or for the 1st, 2nd, 4th, 8th ... time in a row. It is called
// with mu held.
func (h *Host) isNews(why error) bool {
	text := why.Error()
	again := text == h.lastFailure
	h.lastFailure = text
	return !again || h.inARow&(h.inARow-1) == 0
}

// backoff is the pause before the next start after so many failures in a row.
func backoff(cfg *Config, inARow int) time.Duration {
	if inARow == 0 {
		return 0
	}
	return min(cfg.Backoff<<min(inARow-1, 20), cfg.MaxBackoff)
}

// welcome gives tasks to a session that has just begun and counted as starting.
func (h *Host) welcome(s *session) {
	types := slices.Clone(s.hello.GetTypes())
	slices.Sort(types)
	sdk := strings.TrimSpace(s.hello.GetSdk() + " " + s.hello.GetSdkVersion())
	h.log.Info("handler is up", "pid", s.proc.PID(), "sdk", sdk, "version", s.hello.GetVersion(),
		"types", types, "slots", s.slots)
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.tell()
	h.began(s.alone)
	h.status.Starts++
	s.idleSince = time.Now()
	h.sessions = append(h.sessions, s)
	h.wake.Set()        // others may be replaced by it, or the host has been closed
	if s.cfg != h.cfg { // it was reloaded meanwhile
		s.dismiss()
		return
	}
	s.wake.Set()
	if s.alone {
		return
	}
	h.isDown = false
	st := &h.status
	st.Name, st.PID, st.SDK, st.Version = s.cfg.Name, s.proc.PID(), sdk, s.hello.GetVersion()
	st.Types, st.Slots, st.StartedAt = types, s.slots, s.proc.started
	h.types = make(map[string]bool, len(types))
	for _, t := range types {
		h.types[t] = true
	}
	h.wasTried()
	for _, q := range []*queue{&h.queue, &h.alone} {
		for c := q.first; c != nil; {
			next := c.next
			if !h.types[c.run.GetType()] {
				q.remove(c)
				c.done <- answer{err: h.unserved(c)}
			}
			c = next
		}
	}
}

// bury answers the calls that s was running when its process died.
func (h *Host) bury(s *session) {
	unasked, bereft := h.settle(s)
	if !unasked {
		h.log.Info("handler stopped", "pid", s.proc.PID(), "status", s.proc.exit.String())
		return
	}
	h.log.Error("handler died", "pid", s.proc.PID(), "status", s.proc.exit.String(),
		"running", bereft, "max_rss", s.proc.exit.MaxRSS, "output", s.proc.out.last())
}

// settle takes s, whose process has died, out of the host. It returns whether nobody had
// asked for that, and how many calls it was running.
func (h *Host) settle(s *session) (unasked bool, bereft int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.tell()
	h.sessions = slices.DeleteFunc(h.sessions, func(o *session) bool { return o == s })
	bereft = len(s.running)
	unasked = s.fate == silent || s.fate == crashed && (s.drain == serving || bereft > 0)
	if s.fate == closed {
		h.interrupted += bereft
	}
	for id, c := range s.running {
		delete(s.running, id)
		c.session = nil
		if s.fate == crashed || s.fate == silent {
			h.suspects.add(c.id())
		}
		h.deliver(c, s.lastWords(c, bereft))
	}
	if !unasked {
		return false, bereft
	}
	h.status.Crashes++
	h.status.LastCrash = s.proc.exit.String()
	if s.alone { // it is its task that is at fault, and that waits for its retry
		return true, bereft
	}
	if s.finished > 0 || time.Since(s.proc.started) >= stableAfter {
		h.inARow = 0
	}
	h.failed(fmt.Errorf("handler %q died (%s) and is not up again yet", s.cfg.Name, s.proc.exit.String()))
	return true, bereft
}
