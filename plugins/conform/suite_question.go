package conform

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// question is a message of a run that waits for an answer of the host: a check, or a read of a document.
type question interface {
	proto.Message
	GetRunId() uint64
	GetNumber() uint64
}

// questionOf waits until a run has asked for the nth time.
func (s *session) questionOf(run *wire.Run, n int) (asked question, err error) {
	err = s.await("a question of a task of the type "+run.GetType(), func() bool {
		seen := 0
		for _, k := range s.questions {
			if k.GetRunId() == run.GetRunId() {
				seen++
				asked = k
			}
		}
		return seen >= n
	})
	return asked, err
}

// asks submits a task that asks a question, and returns its run and the number of the question. A worker loses its connection before
// the answer, and asks again. want returns the question as it is to be.
func (s *session) asks(typ, payload string, want func(run, number uint64) question) (run *wire.Run, number uint64, err error) {
	run = newRun(typ, []byte(payload))
	if err := s.submit(run); err != nil {
		return nil, 0, err
	}
	first, err := s.questionOf(run, 1)
	if err != nil {
		return nil, 0, err
	}
	number = first.GetNumber()
	if w := want(run.GetRunId(), number); number == 0 || !proto.Equal(first, w) {
		return nil, 0, fmt.Errorf("instead of {%v} with a number came {%.500v}", w, first)
	}
	s.waitForUnexpected(unexpectedTime)
	if s.count(run) > 0 {
		return nil, 0, errors.New("the finish came before the answer to the question")
	}
	if s.node == nil {
		return run, number, nil
	}
	if err := s.reconnect(run); err != nil {
		return nil, 0, err
	}
	again, err := s.questionOf(run, 2)
	if err == nil && !proto.Equal(first, again) {
		err = fmt.Errorf("the question {%.500v} came again as {%.500v}", first, again)
	}
	return run, number, err
}

// reconnect cuts the connection of a worker that waits for an answer to a run, which goes on.
func (s *session) reconnect(run *wire.Run) error {
	l, err := s.cut()
	if err != nil {
		return err
	}
	w := workerOf(full.welcome())
	w.Resumed, w.Runs = true, []uint64{run.GetRunId()}
	return s.goOn(l, w)
}

// asksInVain answers the question of a task with a reason why the host cannot say it: the task fails with that.
func (s *session) asksInVain(typ, payload string, answer func(run, number uint64, why string) *wire.ToHandler) error {
	const why = "the store does not answer"
	run := newRun(typ, []byte(payload))
	if err := s.submit(run); err != nil {
		return err
	}
	asked, err := s.questionOf(run, 1)
	if err != nil {
		return err
	}
	if err := s.send(answer(run.GetRunId(), asked.GetNumber(), why)); err != nil {
		return err
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	e, err := failureOf(f)
	if err != nil {
		return err
	}
	if len(f.GetDocuments()) > 0 {
		return fmt.Errorf("a finish with an error writes %.300v", f.GetDocuments())
	}
	return retryable(e, why)
}
