package conform

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// await waits until ok returns true; ok is called with mu held. After s.patience it returns an error about what.
func (s *session) await(what string, ok func() bool) error {
	return s.awaitFor(s.patience, what, ok)
}

func (s *session) awaitFor(patience time.Duration, what string, ok func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		done, ended, changed := ok(), s.ended, s.changed
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case ended != nil:
			return fmt.Errorf("instead of %s came the end of the stream (%w); %s", what, ended, s.state())
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%s did not come within %v; %s", what, patience, s.state())
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// state says whether the process has ended, with the end of its standard error.
func (s *session) state() string {
	if s.proc.wait(drainTime) {
		return "the process ended (" + s.proc.cmd.ProcessState.String() + ")" + s.proc.lastErrors()
	}
	return "the process lives" + s.proc.lastErrors()
}

// begin gives runs their ids and records them as sent.
func (s *session) begin(runs ...*wire.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runs {
		if r.RunId == 0 {
			s.lastRun++
			r.RunId = s.lastRun
		}
		s.runs[r.GetRunId()] = r
		s.sent++
	}
}

// submit sends runs in one frame once there are credits for them.
func (s *session) submit(runs ...*wire.Run) error {
	if err := s.await(fmt.Sprintf("credit for %d runs", len(runs)), func() bool { return s.credits-s.sent >= len(runs) }); err != nil {
		return err
	}
	s.begin(runs...)
	return s.send(&wire.ToHandler{Runs: runs})
}

// finish waits for the finish of a run.
func (s *session) finish(r *wire.Run) (*wire.Finish, error) {
	return s.finishWithin(s.patience, r)
}

func (s *session) finishWithin(patience time.Duration, r *wire.Run) (f *wire.Finish, err error) {
	err = s.awaitFor(patience, fmt.Sprintf("the finish of a run of the type %q", r.GetType()), func() bool {
		if all := s.finishes[r.GetRunId()]; len(all) > 0 {
			f = all[0]
		}
		return f != nil
	})
	return f, err
}

// do sends a run and returns its finish.
func (s *session) do(r *wire.Run) (*wire.Finish, error) {
	if err := s.submit(r); err != nil {
		return nil, err
	}
	return s.finish(r)
}

// count returns how many finishes of a run have come.
func (s *session) count(r *wire.Run) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.finishes[r.GetRunId()])
}

// reportsOf returns the reports of a run.
func (s *session) reportsOf(r *wire.Run) []runReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runReport
	for _, what := range s.reports {
		if what.run() == r.GetRunId() {
			out = append(out, what)
		}
	}
	return out
}

// ping returns a frame with the next ping.
func (s *session) ping() *wire.ToHandler {
	s.lastPing++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[s.lastPing] = true
	return &wire.ToHandler{Ping: s.lastPing}
}

// pong waits for the answer to the last ping.
func (s *session) pong() error {
	n := s.lastPing
	return s.await(fmt.Sprintf("the pong for ping %d", n), func() bool { return s.pongs[n] })
}

// probe sends a ping and waits for its pong.
func (s *session) probe() error {
	if err := s.send(s.ping()); err != nil {
		return err
	}
	return s.pong()
}

// waitForUnexpected waits, so that a message that should not come is recorded if it comes.
func (s *session) waitForUnexpected(limit time.Duration) {
	select {
	case <-time.After(limit):
	case <-s.over:
	case <-s.ctx.Done():
	}
}
