package conform

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	answersPings   = "it answers a ping while it has nothing to do"
	finishesOnce   = "a run gets exactly one finish, which has an outcome"
	returnsCredits = "each finish comes with the credit for another run, and there are never more than slots"
)

const (
	largeID      = 1 << 40
	largePayload = 5_000_000

	largePatience = 30 * time.Second // more than for others: some programs read JSON byte by byte
)

// workChecks returns the checks of the stream.
func workChecks() []check {
	return []check{
		{
			name: answersPings, needs: []string{saysHello},
			asks: "a ping with number n is answered by a pong with n, soon",
			see:  withPlain((*session).probe),
		},
		{
			name: "a cancel of a run that it does not have is ignored", needs: []string{answersPings},
			asks: "a cancel for a run that has been answered is normal: ignore it",
			see:  withPlain(seeStrangeCancel),
		},
		{
			name: "fields that it does not know are ignored", needs: []string{answersPings},
			asks: "fields are only ever added, and unknown ones are ignored",
			see:  withPlain(seeUnknownFields),
		},
		{
			name: "a run of a type that it does not serve is refused or fails", needs: []string{givesCredits},
			asks: "every run is answered by exactly one finish; one that cannot begin is answered with refused",
			see:  withPlain(seeUnknownType),
		},
		{
			name: finishesOnce, needs: []string{givesCredits},
			asks: "every run is answered by exactly one finish with its run_id; a finish without an outcome is an error of its task",
			see:  withTask(seeFinish),
		},
		{
			name: returnsCredits, needs: []string{finishesOnce},
			asks: "add credits with the answers, one per finish; never let more than your slots run at once",
			see:  withTask(seeCredits),
		},
		{
			name: "several runs in one frame are answered each", needs: []string{returnsCredits},
			asks: "a frame carries any number of each kind of message",
			see:  withTask(seeManyRuns),
		},
		{
			name: "the id of a run may be as large as 2^40", needs: []string{finishesOnce},
			asks: "run_id has 64 bits",
			see:  withTask(seeLargeID),
		},
		{
			name: "a payload may have 5 MB", needs: []string{finishesOnce},
			asks: "there is no limit for the size of messages received",
			see:  withTask(seeLargePayload),
		},
		{
			name: "a ping that comes with a run is answered", needs: []string{answersPings, finishesOnce},
			asks: "reading goes on while tasks run; a handler silent for longer than the liveness is killed",
			see:  withTask(seePingWithRun),
		},
		{
			name: "a run beyond its slots is refused, or waits", needs: []string{returnsCredits},
			asks: "never let more than your slots run at once: a run that cannot begin is answered with refused",
			see:  withTask(seeTooManyRuns),
		},
	}
}

// withPlain is for checks that need a plain session.
func withPlain(see func(*session) error) func(*exam) error {
	return func(x *exam) error {
		s, err := x.use(plain)
		if err != nil {
			return err
		}
		return see(s)
	}
}

// withTask is for checks that need a plain session and harmless tasks, which task makes.
func withTask(see func(s *session, task func() *wire.Run) error) func(*exam) error {
	return func(x *exam) error {
		if _, err := x.harmless(); err != nil {
			return err
		}
		return withPlain(func(s *session) error {
			return see(s, func() *wire.Run {
				run, _ := x.harmless() // it succeeded before
				return run
			})
		})(x)
	}
}

func seeStrangeCancel(s *session) error {
	f := s.ping()
	f.Cancels = []*wire.Cancel{{RunId: 999_999, Reason: wire.Cancel_REASON_CANCELLED, Message: "it is not wanted any more"}}
	if err := s.send(f); err != nil {
		return err
	}
	return s.pong()
}

func seeUnknownFields(s *session) error {
	ping := s.ping()
	if err := s.write(func() error { return s.sendStrange(ping) }); err != nil {
		return err
	}
	return s.pong()
}

// sendStrange sends a frame with a field of a future version.
func (s *session) sendStrange(f *wire.ToHandler) error {
	if s.raw == nil {
		unknown := protowire.AppendTag(nil, 1000, protowire.BytesType)
		unknown = protowire.AppendString(unknown, "of a later time")
		f.ProtoReflect().SetUnknown(unknown)
		return s.stream.Send(f)
	}
	line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(f)
	if err != nil {
		return err
	}
	strange := strings.TrimSuffix(strings.ReplaceAll(string(line), " ", ""), "}") + `,"later":{"a":[1,null]}}` + "\n"
	_, err = s.raw.Write([]byte(strange))
	return err
}

func seeUnknownType(s *session) error {
	f, err := s.do(newRun("a-type-that-is-not-served", nil))
	if err != nil {
		return err
	}
	switch f.GetOutcome().(type) {
	case *wire.Finish_Refused, *wire.Finish_Error:
		return nil
	}
	return fmt.Errorf("its answer is {%v}", f)
}

func seeFinish(s *session, task func() *wire.Run) error {
	run := task()
	f, err := s.do(run)
	if err != nil {
		return err
	}
	if err := begun(f); err != nil {
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	if n := s.count(run); n != 1 {
		return fmt.Errorf("%d finishes came", n)
	}
	return nil
}

// begun returns an error for a finish that says that the run was not begun.
func begun(f *wire.Finish) error {
	if f.GetOutcome() == nil {
		return errors.New("the finish has no outcome")
	}
	if r := f.GetRefused(); r != nil {
		return fmt.Errorf("the run was refused, though there was a credit for it: %s", r.GetMessage())
	}
	return nil
}

func seeCredits(s *session, task func() *wire.Run) error {
	slots := s.slots()
	for range min(2*slots+1, 100) {
		if _, err := s.do(task()); err != nil {
			return err
		}
	}
	s.waitForUnexpected(unexpectedTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tooMany != "" {
		return errors.New(s.tooMany)
	}
	return nil
}

func seeManyRuns(s *session, task func() *wire.Run) error {
	s.mu.Lock()
	open := s.credits - s.sent
	s.mu.Unlock()
	runs := make([]*wire.Run, max(1, min(open, 100)))
	for i := range runs {
		runs[i] = task()
	}
	if err := s.submit(runs...); err != nil {
		return err
	}
	for _, r := range runs {
		f, err := s.finish(r)
		if err != nil {
			return err
		}
		if err := begun(f); err != nil {
			return err
		}
	}
	return nil
}

func seeLargeID(s *session, task func() *wire.Run) error {
	run := task()
	run.RunId = largeID
	f, err := s.do(run)
	if err != nil {
		return err
	}
	return begun(f)
}

func seeLargePayload(s *session, task func() *wire.Run) error {
	run := task()
	run.Payload = append(append(make([]byte, 0, len(run.GetPayload())+largePayload), run.GetPayload()...),
		strings.Repeat(" ", largePayload)...)
	if err := s.submit(run); err != nil {
		return err
	}
	f, err := s.finishWithin(s.patience+largePatience, run)
	if err != nil {
		return err
	}
	return begun(f)
}

func seePingWithRun(s *session, task func() *wire.Run) error {
	run := task()
	if err := s.await("a credit", func() bool { return s.credits > s.sent }); err != nil {
		return err
	}
	s.begin(run)
	f := s.ping()
	f.Runs = []*wire.Run{run}
	if err := s.send(f); err != nil {
		return err
	}
	if err := s.pong(); err != nil {
		return err
	}
	_, err := s.finish(run)
	return err
}

func seeTooManyRuns(s *session, task func() *wire.Run) error {
	slots := s.slots()
	if slots > 1000 {
		return reason(fmt.Sprintf("it has %d slots", slots))
	}
	runs := make([]*wire.Run, slots+1)
	for i := range runs {
		runs[i] = task()
	}
	s.begin(runs...)
	if err := s.send(&wire.ToHandler{Runs: runs}); err != nil {
		return err
	}
	for _, r := range runs {
		f, err := s.finish(r)
		if err != nil {
			return err
		}
		if f.GetOutcome() == nil {
			return errors.New("a finish has no outcome")
		}
	}
	s.waitForUnexpected(unexpectedTime)
	for _, r := range runs {
		if n := s.count(r); n > 1 {
			return fmt.Errorf("a run got %d finishes", n)
		}
	}
	return nil
}
