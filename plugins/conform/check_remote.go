package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	connects   = "it connects to the node that TASKENGINE_ADDRESS names"
	comesBack  = "when its connection breaks it connects again, with its session and the runs that it has"
	sendsAgain = "an answer that may not have arrived is sent again"
)

// remoteStartChecks returns the checks of how a worker begins.
func remoteStartChecks() []check {
	return []check{
		{
			name: connects,
			asks: "with TASKENGINE_ADDRESS in its environment, and without the cookie of a host, the program is a worker: it calls taskengine.handler.v1.Workers/Work there",
			see: func(x *exam) error {
				s, err := x.openRemote(workerOf(plain.welcome()))
				if err != nil {
					return err
				}
				x.sessions[plain], x.report.Transport = s, "grpc"
				return nil
			},
		},
		{
			name: saysHello, needs: []string{connects},
			asks: "the first frame of a worker has an offer and a hello",
			see:  seeOffer,
		},
		{
			name: "its offer has a session of 16 bytes", needs: []string{saysHello},
			asks: "offer.session is 16 random bytes, and offer.runs is empty at first",
			see: withPlain(func(s *session) error {
				offer := s.first.GetOffer()
				if n := len(offer.GetSession()); n != 16 || len(offer.GetRuns()) > 0 {
					return fmt.Errorf("its session has %d bytes, and it offers the runs %v", n, offer.GetRuns())
				}
				return nil
			}),
		},
		{
			name: "it sends the token that TASKENGINE_TOKEN has", needs: []string{saysHello},
			asks: "the header authorization of the stream is: Bearer, and the token",
			see: withPlain(func(s *session) error {
				if s.link.token != "Bearer "+examToken {
					return fmt.Errorf("the header is %.100q", s.link.token)
				}
				return nil
			}),
		},
		helloVersion(), helloTypes(),
		{
			name: givesCredits, needs: []string{saysHello},
			asks: "after the welcome come credits for the slots of the worker: at most as many as the welcome says",
			see:  withPlain(seeRemoteCredits),
		},
	}
}

func seeOffer(x *exam) error {
	s, err := x.use(plain)
	if err != nil {
		return err
	}
	if s.first.GetHello() == nil || s.first.GetOffer() == nil {
		return fmt.Errorf("its first frame is {%.200v}", s.first)
	}
	x.meet(s.first.GetHello())
	return nil
}

func seeRemoteCredits(s *session) error {
	if err := s.await("a credit", func() bool { return s.credits > 0 }); err != nil {
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.credits > s.slots() {
		return fmt.Errorf("it gives %d credits, has %d slots, and the welcome says %d", s.credits, s.first.GetHello().GetSlots(), s.welcome.GetSlots())
	}
	return nil
}

// remoteEndChecks returns the checks of how a worker goes on, and ends.
func remoteEndChecks() []check {
	return slices.Concat([]check{
		{
			name: "it connects again when it is refused, and says why it was", needs: []string{saysHello},
			asks: "after any other end than with OK connect again, with growing pauses; the message of the status is for people",
			see:  seeRefused,
		},
		{
			name: comesBack, needs: []string{finishesOnce},
			asks: "when the connection breaks, connect again with the same session; runs of the offer has every run that is running, or of which you keep the finish",
			see:  withWorker(seeComesBack),
		},
		{
			name: sendsAgain, needs: []string{comesBack},
			asks: "received says how many finishes have arrived: keep the others, and send them again when the session is resumed",
			see:  withWorker(seeSendsAgain),
		},
		{
			name: "an answer that has arrived is not sent again", needs: []string{comesBack, answersPings},
			asks: "forget the first finishes up to received",
			see:  withWorker(seeForgets),
		},
		{
			name: "an answer for a node that does not know its session names the attempt", needs: []string{sendsAgain},
			asks: "if the welcome is not resumed and has the feature earlier, send the kept finishes with the attempt in earlier, in place of a run_id",
			see:  withWorker(seeEarlier),
		},
		{
			name: "an answer for a node that cannot take it by its attempt is dropped", needs: []string{sendsAgain},
			asks: "if the welcome is not resumed, and has not the feature earlier, forget what you kept: no run of before may be answered",
			see:  withWorker(seeForgetsForOthers),
		},
		{
			name: "a node that is silent is given up", needs: []string{comesBack},
			asks: "either side gives the connection up after hearing nothing for the liveness of the welcome",
			see:  seeSilence,
		},
		{
			name: drains, needs: []string{saysHello},
			asks: "after a drain, and the end of the stream with OK, the worker ends",
			see:  seeDrain,
		},
		{
			name: "what it has when the drain comes is answered", needs: []string{finishesOnce},
			asks: "after a drain nothing more will come: answer what you have; the node ends the stream after the last answer",
			see:  seeAnswersAfterDrain,
		},
		{
			name: "on SIGTERM it says that it leaves, and exits with status 0 when the node ends the stream", needs: []string{saysHello},
			asks: "to end, send leaving: the node ends the stream with OK when all runs are answered",
			see:  seeTerm,
		},
	}, runningChecks(), lastChecks())
}

// withWorker is for checks that need a worker of their own, and harmless tasks.
func withWorker(see func(s *session, task func() *wire.Run) error) func(*exam) error {
	return func(x *exam) error {
		if _, err := x.harmless(); err != nil {
			return err
		}
		s, err := x.open(plain.welcome())
		if err != nil {
			return err
		}
		defer x.endSession(s)
		return see(s, func() *wire.Run {
			run, _ := x.harmless() // it succeeded before
			return run
		})
	}
}

func seeRefused(x *exam) error {
	s, err := x.open(plain.welcome())
	if err != nil {
		return err
	}
	defer x.endSession(s)
	const why = "the token of this worker is not known"
	s.node.refuse(status.Error(codes.Unauthenticated, why))
	s.sever()
	<-s.over
	for end := time.Now().Add(s.patience); s.node.refusals() < 2 || !strings.Contains(textOf(s.proc.errors), why); time.Sleep(unexpectedTime / 10) {
		if time.Now().After(end) || s.proc.wait(0) {
			return fmt.Errorf("it connected %d times again%s", s.node.refusals(), s.proc.lastErrors())
		}
	}
	s.node.refuse(nil)
	_, err = s.offered()
	return err
}

// answered runs a task, and returns its finish and, after the connection was cut, the next stream.
func (s *session) answered(run *wire.Run, received uint64) (*wire.Finish, *link, error) {
	f, err := s.do(run)
	if err != nil {
		return nil, nil, err
	}
	if received > 0 {
		if err := s.send(&wire.ToHandler{Received: received}); err != nil {
			return nil, nil, err
		}
		if err := s.probe(); err != nil { // it has read that
			return nil, nil, err
		}
	}
	session := s.first.GetOffer().GetSession()
	l, err := s.cut()
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(l.first.GetOffer().GetSession(), session) {
		return nil, nil, errors.New("it connects with another session")
	}
	return f, l, nil
}

func seeComesBack(s *session, task func() *wire.Run) error {
	run := task()
	_, l, err := s.answered(run, 0)
	if err != nil {
		return err
	}
	if got := l.first.GetOffer().GetRuns(); !slices.Equal(got, []uint64{run.GetRunId()}) {
		return fmt.Errorf("it has not heard that the finish of run %d has arrived, and offers the runs %v", run.GetRunId(), got)
	}
	return nil
}

// resumed returns the welcome to a worker with a known session.
func resumed(received uint64, runs ...uint64) *wire.Welcome {
	w := workerOf(plain.welcome())
	w.Resumed, w.Received, w.Runs = true, received, runs
	return w
}

func seeSendsAgain(s *session, task func() *wire.Run) error {
	run := task()
	first, l, err := s.answered(run, 0)
	if err != nil {
		return err
	}
	if err := s.goOn(l, resumed(0, run.GetRunId())); err != nil {
		return err
	}
	again, err := s.finish(run)
	if err != nil {
		return err
	}
	if again.String() != first.String() {
		return fmt.Errorf("the finish was {%.200v}, and came again as {%.200v}", first, again)
	}
	return s.onlyCredits(1)
}

// onlyCredits returns an error unless so many finishes come on the stream, and all slots are free then.
func (s *session) onlyCredits(finishes int) error {
	if err := s.await("credits for all slots", func() bool { return s.credits >= s.slots() }); err != nil {
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.finishes) + len(s.earlier); n != finishes || s.credits != s.slots() {
		return fmt.Errorf("%d finishes came and %d credits, wanted are %d and %d", n, s.credits, finishes, s.slots())
	}
	return nil
}

func seeForgets(s *session, task func() *wire.Run) error {
	_, l, err := s.answered(task(), 1)
	if err != nil {
		return err
	}
	if got := l.first.GetOffer().GetRuns(); len(got) > 0 {
		return fmt.Errorf("it has heard that all has arrived, and offers the runs %v", got)
	}
	if err := s.goOn(l, resumed(1)); err != nil {
		return err
	}
	return s.onlyCredits(0)
}

func seeEarlier(s *session, task func() *wire.Run) error {
	run := task()
	first, l, err := s.answered(run, 0)
	if err != nil {
		return err
	}
	if err := s.goOn(l, workerOf(plain.welcome())); err != nil {
		return err
	}
	if err := s.await("the answer for the attempt", func() bool { return len(s.earlier) > 0 }); err != nil {
		return err
	}
	s.mu.Lock()
	got := s.earlier[0]
	s.mu.Unlock()
	of := got.GetEarlier()
	if got.GetRunId() != 0 || !slices.Equal(of.GetTaskId(), run.GetTaskId()) || of.GetVersion() != run.GetVersion() || of.GetType() != run.GetType() {
		return fmt.Errorf("the answer to version %d of a task of type %q came as {%.300v}", run.GetVersion(), run.GetType(), got)
	}
	if want, ok := first.GetOutcome().(*wire.Finish_Result); ok && !slices.Equal(got.GetResult(), want.Result) {
		return fmt.Errorf("the result was %.100q, and is %.100q", want.Result, got.GetResult())
	}
	return s.onlyCredits(1)
}

func seeForgetsForOthers(s *session, task func() *wire.Run) error {
	_, l, err := s.answered(task(), 0)
	if err != nil {
		return err
	}
	w := workerOf(plain.welcome())
	w.Features = nil
	if err := s.goOn(l, w); err != nil {
		return err
	}
	return s.onlyCredits(0)
}

func seeSilence(x *exam) error {
	w := plain.welcome()
	s, err := x.open(w)
	if err != nil {
		return err
	}
	defer x.endSession(s)
	l, err := s.cut()
	if err != nil {
		return err
	}
	hurried := resumed(0)
	hurried.Liveness = (500 * time.Millisecond).Microseconds()
	if err := s.goOn(l, hurried); err != nil {
		return err
	}
	if _, err := s.offered(); err != nil {
		return fmt.Errorf("the node said nothing for longer than the liveness: %w", err)
	}
	return nil
}

func seeTerm(x *exam) error {
	s, err := x.open(plain.welcome())
	if err != nil {
		return err
	}
	defer x.endSession(s)
	if err := s.await("a credit", func() bool { return s.credits > 0 }); err != nil {
		return err
	}
	if err := s.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.await("a frame with leaving", func() bool { return s.leaving }); err != nil {
		return err
	}
	return x.endsWell(s)
}

// endsWell ends the stream of a worker in order, and returns an error unless its process then exits
// with status 0.
func (x *exam) endsWell(s *session) error {
	s.link.end(nil)
	if err := x.exits(s); err != nil {
		return err
	}
	if state := s.proc.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("it ended (%v)%s", state, s.proc.lastErrors())
	}
	return nil
}
