package conform

import (
	"fmt"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// answerChecks returns the checks of answers other than a result.
func answerChecks() []check {
	const asks = "error: one with the message, the class, and as permanent and with the delay that the payload says"
	return []check{
		in(wide, "error", "an error is retried as the policy says", asks, func(s *session) error {
			e, err := s.failure("error", `{"message": "no möney", "class": "funds"}`)
			if err != nil {
				return err
			}
			if e.GetClass() != "funds" {
				return fmt.Errorf("the class is %q, wanted is %q", e.GetClass(), "funds")
			}
			if e.GetInDoubt() {
				return fmt.Errorf("the error is {%.300v}, and in doubt", e)
			}
			return retryable(e, "no möney")
		}),
		in(wide, "error", "a permanent error is not retried", asks, func(s *session) error {
			e, err := s.failure("error", `{"message": "no money", "class": "funds", "permanent": true}`)
			if err != nil {
				return err
			}
			if !e.GetPermanent() || e.GetClass() != "funds" {
				return fmt.Errorf("the error is {%.300v}", e)
			}
			return nil
		}),
		in(wide, "error", "an error may say when to try again", asks, func(s *session) error {
			e, err := s.failure("error", `{"message": "later", "class": "busy", "retry_delay_ms": 1500}`)
			if err != nil {
				return err
			}
			if e.GetPermanent() || e.GetClass() != "busy" || e.GetRetryDelay() != 1_500_000 {
				return fmt.Errorf("the error is {%.300v}", e)
			}
			return nil
		}),
		in(wide, "throw", "what the language throws fails its task, which is retried", "throw: an error with the payload in its message", func(s *session) error {
			e, err := s.failure("throw", "thrown as asked")
			if err != nil {
				return err
			}
			if !e.GetInDoubt() {
				return fmt.Errorf("the error is {%.300v}, and not in doubt: the handler did not say how far it came", e)
			}
			return retryable(e, "thrown as asked")
		}),
		in(wide, "doubt", "a handler may say that its work may be done", "doubt: an error in doubt", func(s *session) error {
			e, err := s.failure("doubt", "no answer")
			if err != nil {
				return err
			}
			if !e.GetInDoubt() {
				return fmt.Errorf("the error is {%.300v}, and not in doubt", e)
			}
			return retryable(e, "no answer")
		}),
		in(wide, "unencodable", "a result that cannot be encoded is a permanent error of the class bad_result",
			"a result that the SDK cannot encode is a permanent error of class bad_result, because the work was done", func(s *session) error {
				e, err := s.failure("unencodable", "")
				if err != nil {
					return err
				}
				if !e.GetPermanent() || e.GetClass() != "bad_result" {
					return fmt.Errorf("the error is {%.300v}", e)
				}
				return nil
			}),
		in(wide, "throw", "an error with a long message is cut", "error texts beyond 8 KiB are not worth sending", seeLongError),
		in(wide, "snooze", "a task may be snoozed", "snooze: called again after the delay", seeSnooze),
		in(wide, "again", "a task may be due again", "again: the result, and when it is due again", seeAgain),
	}
}

func seeLongError(s *session) error {
	long := make([]byte, 1<<20)
	for i := range long {
		long[i] = 'x'
	}
	copy(long, "first ")
	e, err := s.failure("throw", string(long))
	if err != nil {
		return err
	}
	if n := len(e.GetMessage()); n > 2*wire.MaxErrorBytes {
		return fmt.Errorf("the message has %d bytes", n)
	}
	return retryable(e, "first ")
}

func seeSnooze(s *session) error {
	f, err := s.do(newRun("snooze", []byte(`{"delay_ms": 90000}`)))
	if err != nil {
		return err
	}
	if f.GetSnooze() == nil || f.GetSnooze().GetDelay() != 90_000_000 {
		return fmt.Errorf("instead of a snooze of 90 s came {%.300v}", f)
	}
	return nil
}

func seeAgain(s *session) error {
	at := time.Now().Add(time.Hour).UnixMilli()
	f, err := s.do(newRun("again", fmt.Appendf(nil, `{"at_ms": %d, "result": "so far"}`, at)))
	if err != nil {
		return err
	}
	again := f.GetAgain()
	switch d := again.GetAt() - at*1000; {
	case again == nil:
		return fmt.Errorf("instead of an again came {%.300v}", f)
	case d < -1000 || d > 1000:
		return fmt.Errorf("it is due again at %d µs, wanted is %d", again.GetAt(), at*1000)
	case string(again.GetResult()) != "so far":
		return fmt.Errorf("the result is %.100q", again.GetResult())
	}
	return nil
}

// cancelChecks returns the checks of cancelled runs, and of other runs at the same time.
func cancelChecks() []check {
	const asked = "on a cancel ask the run to stop; it still needs its finish"
	return []check{
		in(wide, "wait", "a ping is answered while a task runs", "reading goes on while tasks run", func(s *session) error {
			run := newRun("wait", nil)
			if err := s.submit(run); err != nil {
				return err
			}
			if err := s.probe(); err != nil {
				return err
			}
			return s.stop(run, wire.Cancel_REASON_CANCELLED)
		}),
		in(wide, "wait", "a handler that is cancelled stops", asked, func(s *session) error {
			run := newRun("wait", nil)
			if err := s.submit(run); err != nil {
				return err
			}
			return s.stop(run, wire.Cancel_REASON_CANCELLED)
		}),
		in(wide, "wait", "a handler stops when its deadline is over", asked, func(s *session) error {
			run := newRun("wait", nil)
			const left = 200 * time.Millisecond
			run.TimeLeft = left.Microseconds()
			if err := s.submit(run); err != nil {
				return err
			}
			select {
			case <-time.After(left): // as a host, which sends the cancel then
			case <-s.ctx.Done():
			}
			e, err := s.stopped(run, wire.Cancel_REASON_DEADLINE)
			if err == nil && !e.GetInDoubt() {
				err = fmt.Errorf("the error is {%.300v}, and not in doubt: its work may be done", e)
			}
			return err
		}),
		in(wide, "wait", "a cancel that comes with its run, or twice, does no harm", asked, seeHastyCancel),
		alone(wide, "hang", "a ping is answered while a task ignores its cancellation", "a ping is answered soon, whatever tasks do", seeHang),
		ofHosts(alone(wide, "wait", "it exits when its host vanishes while a task runs", "exit when the stream ends, for whatever reason", func(x *exam, s *session) error {
			if err := s.submit(newRun("wait", nil)); err != nil {
				return err
			}
			if err := s.probe(); err != nil {
				return err
			}
			s.vanish()
			return x.exits(s)
		})),
		alone(wide, "exit", "a task can end the process with the status that it chooses", "exit: the process exits with the payload as its status", seeExit),
	}
}

// stop cancels a run and expects its error.
func (s *session) stop(run *wire.Run, why wire.Cancel_Reason) error {
	_, err := s.stopped(run, why)
	return err
}

// stopped cancels a run and returns its error.
func (s *session) stopped(run *wire.Run, why wire.Cancel_Reason) (*wire.Error, error) {
	cancel := &wire.Cancel{RunId: run.GetRunId(), Reason: why, Message: "as the examination wants"}
	if err := s.send(&wire.ToHandler{Cancels: []*wire.Cancel{cancel}}); err != nil {
		return nil, err
	}
	f, err := s.finish(run)
	if err != nil {
		return nil, err
	}
	e, err := failureOf(f)
	if err == nil && e.GetPermanent() {
		err = fmt.Errorf("the error is {%.300v}, and permanent", e)
	}
	return e, err
}

func seeHastyCancel(s *session) error {
	run := newRun("wait", nil)
	if err := s.await("a credit", func() bool { return s.credits > s.sent }); err != nil {
		return err
	}
	s.begin(run)
	cancel := &wire.Cancel{RunId: run.GetRunId(), Reason: wire.Cancel_REASON_CANCELLED}
	if err := s.send(&wire.ToHandler{Runs: []*wire.Run{run}, Cancels: []*wire.Cancel{cancel, cancel}}); err != nil {
		return err
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	if f.GetRefused() == nil && f.GetError() == nil {
		return fmt.Errorf("instead of an error came {%.300v}", f)
	}
	if err := s.send(&wire.ToHandler{Cancels: []*wire.Cancel{cancel}}); err != nil {
		return err
	}
	if err := s.probe(); err != nil {
		return err
	}
	if n := s.count(run); n != 1 {
		return fmt.Errorf("%d finishes came", n)
	}
	return nil
}

// seeHang gives the task more and more time to begin: a run that is cancelled before may be answered.
func seeHang(_ *exam, s *session) error {
	for wait := unexpectedTime; ; wait *= 2 {
		run := newRun("hang", nil)
		if err := s.submit(run); err != nil {
			return err
		}
		s.waitForUnexpected(wait)
		cancel := &wire.Cancel{RunId: run.GetRunId(), Reason: wire.Cancel_REASON_CANCELLED}
		if err := s.send(&wire.ToHandler{Cancels: []*wire.Cancel{cancel}}); err != nil {
			return err
		}
		if err := s.probe(); err != nil {
			return err
		}
		s.waitForUnexpected(unexpectedTime)
		if s.count(run) == 0 {
			return s.probe()
		}
		f, err := s.finish(run)
		if err != nil {
			return err
		}
		if f.GetRefused() == nil && f.GetError() == nil || wait > s.patience {
			return fmt.Errorf("hang should ignore that it is cancelled, and was answered with {%.200v}", f)
		}
	}
}

func seeExit(_ *exam, s *session) error {
	if err := s.submit(newRun("exit", []byte("7"))); err != nil {
		return err
	}
	if !s.proc.wait(s.patience) {
		return fmt.Errorf("it was still running after %v", s.patience)
	}
	if code := s.proc.cmd.ProcessState.ExitCode(); code != 7 {
		return fmt.Errorf("it ended (%v), wanted is status 7%s", s.proc.cmd.ProcessState, s.proc.lastErrors())
	}
	return nil
}
