package conform

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// runningChecks returns the checks of a worker that runs a task when its connection breaks, or when it is to end.
func runningChecks() []check {
	running := func(name, asks string, see func(*exam, *session, *wire.Run) error) check {
		c := alone(wide, "wait", name, asks, func(x *exam, s *session) error {
			run := newRun("wait", nil)
			if err := s.submit(run); err != nil {
				return err
			}
			if err := s.probe(); err != nil { // it has read that
				return err
			}
			return see(x, s, run)
		})
		c.needs = append(c.needs, comesBack)
		return c
	}
	return []check{
		running("a task that runs while the connection is broken goes on",
			"runs of the offer has the runs that are running, too; those that the welcome has in runs go on", seeGoesOn),
		running("a task that the node has given to others is cancelled, and its answer counts for nothing",
			"cancel the runs of the offer that runs of the welcome does not have, and send no finish of them", func(_ *exam, s *session, run *wire.Run) error {
				return s.losesRun(run, resumed(0))
			}),
		running("a task of a session that the node does not know is cancelled",
			"if the welcome is not resumed all runs are lost: cancel them, and send no finish with their run_id", func(_ *exam, s *session, run *wire.Run) error {
				return s.losesRun(run, workerOf(wide.welcome()))
			}),
		running("on SIGTERM a task that runs is not cancelled, and its answer is sent before the end",
			"after leaving answer what you have: the node ends the stream with OK when all runs are answered", seeTermWhileRunning),
	}
}

// losesConnection cuts the connection of a worker with one run, and goes on with its next connection.
func (s *session) losesConnection(run *wire.Run, w *wire.Welcome) error {
	l, err := s.cut()
	if err != nil {
		return err
	}
	if got := l.first.GetOffer().GetRuns(); !slices.Equal(got, []uint64{run.GetRunId()}) {
		return fmt.Errorf("it has run %d, and offers the runs %v", run.GetRunId(), got)
	}
	w.Slots = manySlots
	return s.goOn(l, w)
}

func seeGoesOn(_ *exam, s *session, run *wire.Run) error {
	if err := s.losesConnection(run, resumed(0, run.GetRunId())); err != nil {
		return err
	}
	if err := s.stillRuns(run); err != nil {
		return err
	}
	if err := s.stop(run, wire.Cancel_REASON_CANCELLED); err != nil {
		return err
	}
	return s.onlyCredits(1)
}

// stillRuns returns an error if a run is answered without having been cancelled.
func (s *session) stillRuns(run *wire.Run) error {
	if err := s.probe(); err != nil {
		return err
	}
	s.waitForUnexpected(unexpectedTime)
	if s.count(run) == 0 {
		return nil
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	return fmt.Errorf("the task was not cancelled, and was answered with {%.300v}", f)
}

func (s *session) losesRun(run *wire.Run, w *wire.Welcome) error {
	if err := s.losesConnection(run, w); err != nil {
		return err
	}
	if err := s.onlyCredits(0); err != nil { // there is one for the slot of the run when its handler has stopped
		return err
	}
	next := newRun("wait", nil)
	if err := s.submit(next); err != nil {
		return err
	}
	return s.stop(next, wire.Cancel_REASON_CANCELLED)
}

func seeTermWhileRunning(x *exam, s *session, run *wire.Run) error {
	if err := s.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.await("a frame with leaving", func() bool { return s.leaving }); err != nil {
		return err
	}
	if err := s.stillRuns(run); err != nil {
		return err
	}
	if err := s.stop(run, wire.Cancel_REASON_CANCELLED); err != nil {
		return err
	}
	return x.endsWell(s)
}
