package conform

import (
	"fmt"
	"strconv"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// crowdChecks returns the checks of several tasks at once.
func crowdChecks() []check {
	const twoSlots = 2
	return []check{
		in(wide, "echo", "each of a thousand tasks gets its own answer", "every run is answered by the finish with its run_id, in any order", seeThousand),
		in(wide, "wait", "as many tasks run at once as it has slots", "run as many tasks at once as the slots that hello names", func(s *session) error {
			slots := s.slots()
			if slots < twoSlots {
				return reason("it has one slot")
			}
			waits, err := s.fill("wait", slots-1)
			if err != nil {
				return err
			}
			if _, err := s.result("echo", nil); err != nil {
				return fmt.Errorf("while %d tasks ran in %d slots: %w", slots-1, slots, err)
			}
			return s.stopAll(waits)
		}),
		in(wide, "wait", "a run beyond its slots does not begin before one is free", "never let more than your slots run at once", seeNoMoreThanSlots),
		in(wide, "batch", "tasks of a batch handler come in one call", "batch: the result is the number of tasks in the call, here 3", func(s *session) error {
			return s.batch([]string{"a", "b", "c"}, "")
		}),
		in(wide, "batch", "one task of a batch can fail alone", "batch: a task with the payload \"fail\" fails alone, with the message \"asked to\"", func(s *session) error {
			return s.batch([]string{"a", "fail", "c"}, "asked to")
		}),
		in(wide, "batch", "a batch has no more tasks than its handler takes", "batch: at most 10 tasks in a call", seeLargeBatch),
	}
}

func seeThousand(s *session) error {
	const many, atOnce = 1000, 100
	runs := make([]*wire.Run, many)
	for i := range runs {
		runs[i] = newRun("echo", []byte(strconv.Itoa(i)))
	}
	for rest := runs; len(rest) > 0; {
		if err := s.await("a credit", func() bool { return s.credits > s.sent }); err != nil {
			return err
		}
		s.mu.Lock()
		n := min(s.credits-s.sent, len(rest), atOnce)
		s.mu.Unlock()
		s.begin(rest[:n]...)
		if err := s.send(&wire.ToHandler{Runs: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for _, r := range runs {
		f, err := s.finish(r)
		if err != nil {
			return err
		}
		if got, err := resultOf(f); err != nil || string(got) != string(r.GetPayload()) {
			return fmt.Errorf("the answer for %q is {%.200v}", r.GetPayload(), f)
		}
	}
	return nil
}

// fill starts n tasks, each in a frame of its own.
func (s *session) fill(typ string, n int) ([]*wire.Run, error) {
	runs := make([]*wire.Run, n)
	for i := range runs {
		runs[i] = newRun(typ, nil)
		if err := s.submit(runs[i]); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

func (s *session) stopAll(runs []*wire.Run) error {
	for _, r := range runs {
		if err := s.stop(r, wire.Cancel_REASON_CANCELLED); err != nil {
			return err
		}
	}
	return nil
}

func seeNoMoreThanSlots(s *session) error {
	slots := s.slots()
	waits, err := s.fill("wait", slots)
	if err != nil {
		return err
	}
	extra := newRun("echo", []byte("one too many"))
	s.begin(extra) // there is no credit for it
	if err := s.send(&wire.ToHandler{Runs: []*wire.Run{extra}}); err != nil {
		return err
	}
	if err := s.probe(); err != nil { // by then it has read the run
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	s.mu.Lock()
	early := s.finishes[extra.GetRunId()]
	s.mu.Unlock()
	for _, f := range early {
		if f.GetRefused() == nil {
			return fmt.Errorf("while %d tasks ran in %d slots, one more was answered with {%.200v}", slots, slots, f)
		}
	}
	if err := s.stopAll(waits); err != nil {
		return err
	}
	_, err = s.finish(extra)
	return err
}

// batch runs tasks together and expects their number as result, and the error for the task that is to fail. A slow
// program may make two calls of them: then batch tries again.
func (s *session) batch(payloads []string, failing string) (err error) {
	if slots := s.slots(); slots < len(payloads) {
		return reason(fmt.Sprintf("it has %d slots, and a batch is of %d tasks", slots, len(payloads)))
	}
	const tries = 5
	for range tries {
		var parted bool
		if parted, err = s.oneBatch(payloads, failing); !parted {
			return err
		}
	}
	return err
}

// oneBatch runs tasks together once. It reports whether the only fault is that they came in several calls.
func (s *session) oneBatch(payloads []string, failing string) (parted bool, err error) {
	runs := make([]*wire.Run, len(payloads))
	for i, p := range payloads {
		runs[i] = newRun("batch", []byte(p))
	}
	if err := s.submit(runs...); err != nil {
		return false, err
	}
	for _, r := range runs {
		f, end := s.finish(r)
		if end != nil {
			return false, end
		}
		if string(r.GetPayload()) == "fail" {
			e, end := failureOf(f)
			if end == nil {
				end = retryable(e, failing)
			}
			if end != nil {
				return false, end
			}
			continue
		}
		got, end := resultOf(f)
		n, bad := strconv.Atoi(string(got))
		if end != nil || bad != nil || n != len(payloads) {
			err = fmt.Errorf("of %d tasks in one frame, one was answered with {%.200v}", len(payloads), f)
		}
		if end != nil || bad != nil || n < 1 || n > len(payloads) {
			return false, err
		}
	}
	return err != nil, err
}

func seeLargeBatch(s *session) error {
	const tasks, most = 12, 10
	if slots := s.slots(); slots < tasks {
		return reason(fmt.Sprintf("it has %d slots, and this takes %d", slots, tasks))
	}
	runs := make([]*wire.Run, tasks)
	for i := range runs {
		runs[i] = newRun("batch", nil)
	}
	if err := s.submit(runs...); err != nil {
		return err
	}
	for _, r := range runs {
		f, err := s.finish(r)
		if err != nil {
			return err
		}
		got, err := resultOf(f)
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(got)); err != nil || n < 1 || n > most {
			return fmt.Errorf("a call had %.40q tasks", got)
		}
	}
	return nil
}
