package conform

import (
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// rerunChecks returns the checks of tasks that run again with another payload or a checkpoint.
func rerunChecks() []check {
	const asks = "rerun: the result, when it is due again, and the payload and the checkpoint if the payload of the task has them"
	return []check{
		in(full, "rerun", "a task may run again with another payload and a checkpoint", asks, func(s *session) error {
			return s.runsAgain(`, "payload": "the näxt", "checkpoint": "so fär"`, &wire.Again{Payload: []byte("the näxt"), Checkpoint: []byte("so fär")})
		}),
		in(full, "rerun", "an empty payload is another payload", asks, func(s *session) error {
			return s.runsAgain(`, "payload": ""`, &wire.Again{Payload: []byte{}})
		}),
		in(full, "rerun", "a checkpoint needs no other payload", asks, func(s *session) error {
			return s.runsAgain(`, "checkpoint": "so fär"`, &wire.Again{Checkpoint: []byte("so fär")})
		}),
		in(wide, "rerun", "without the feature a task runs again as it is", asks, func(s *session) error {
			return s.runsAgain("", &wire.Again{})
		}),
		in(wide, "rerun", "without the feature another payload fails its task for good",
			"without the feature the finish is a permanent error of class unsupported: the host would drop the payload", func(s *session) error {
				return s.unsupported("rerun", rerunPayload(`, "payload": "the next"`))
			}),
		in(wide, "rerun", "without the feature a checkpoint for the next run fails its task for good",
			"without the feature the finish is a permanent error of class unsupported: the host would drop the checkpoint", func(s *session) error {
				return s.unsupported("rerun", rerunPayload(`, "checkpoint": "so far"`))
			}),
		in(full, "rerun", "a payload that is too large is a permanent error of the class payload_too_large",
			"another payload may have at most max_payload_bytes; answer a larger one with a permanent error of class payload_too_large", func(s *session) error {
				if err := s.runsAgain(large("payload", maxPayload), &wire.Again{Payload: []byte(strings.Repeat("x", maxPayload))}); err != nil {
					return err
				}
				return s.refuses(large("payload", maxPayload+1), "payload_too_large")
			}),
		in(full, "rerun", "a checkpoint that is too large is a permanent error of the class checkpoint_too_large",
			"a checkpoint may have at most 1 MiB; answer a larger one with a permanent error of class checkpoint_too_large", func(s *session) error {
				return s.refuses(large("checkpoint", maxCheckpoint+1), "checkpoint_too_large")
			}),
	}
}

const (
	rerunAt       = 2_000_000_000_000 // Unix time in milliseconds
	maxCheckpoint = 1 << 20           // bytes
)

func rerunPayload(with string) string {
	return fmt.Sprintf(`{"at_ms": %d, "result": "so far"%s}`, int64(rerunAt), with)
}

func large(field string, bytes int) string {
	return fmt.Sprintf(`, %q: %q`, field, strings.Repeat("x", bytes))
}

// runsAgain runs a task, and compares the finish, which has to run the task again, with want, apart
// from its time and result.
func (s *session) runsAgain(with string, want *wire.Again) error {
	f, err := s.do(newRun("rerun", []byte(rerunPayload(with))))
	if err != nil {
		return err
	}
	again := f.GetAgain()
	if again == nil {
		return fmt.Errorf("instead of an again came {%.300v}", f)
	}
	if d := again.GetAt() - int64(rerunAt)*int64(time.Millisecond/time.Microsecond); d < -1000 || d > 1000 || string(again.GetResult()) != "so far" {
		return fmt.Errorf("the again is {%.300v}", again)
	}
	for what, pair := range map[string][2][]byte{"payload": {again.Payload, want.Payload}, "checkpoint": {again.Checkpoint, want.Checkpoint}} {
		if got, want := pair[0], pair[1]; (got == nil) != (want == nil) || string(got) != string(want) {
			return fmt.Errorf("the %s is %s, wanted is %s", what, optional(got), optional(want))
		}
	}
	return nil
}

func optional(b []byte) string {
	if b == nil {
		return "missing"
	}
	return fmt.Sprintf("%.60q of %d bytes", b, len(b))
}

// refuses runs a task that asks for more than it may have.
func (s *session) refuses(with, class string) error {
	e, err := s.failure("rerun", rerunPayload(with))
	if err != nil {
		return err
	}
	if !e.GetPermanent() || e.GetClass() != class {
		return fmt.Errorf("the error is {%.300v}", e)
	}
	return nil
}

// endedChecks returns the checks of handlers that have ended their attempts themselves.
func endedChecks() []check {
	const asks = "ended: the finish says that the handler has ended the attempt in a transaction of its own"
	return []check{
		in(full, "ended", "a handler may have ended its attempt itself", asks, func(s *session) error {
			f, err := s.do(newRun("ended", nil))
			if err == nil && f.GetEnded() == nil {
				err = fmt.Errorf("instead of an ended came {%.300v}", f)
			}
			return err
		}),
		in(wide, "ended", "without the feature an attempt that its handler has ended is an error",
			"without the feature the finish is an error of class unsupported that is not permanent: it has no effect if the attempt has ended", func(s *session) error {
				e, err := s.failure("ended", "")
				if err == nil && (e.GetClass() != "unsupported" || e.GetPermanent()) {
					err = fmt.Errorf("the error is {%.300v}", e)
				}
				return err
			}),
	}
}
