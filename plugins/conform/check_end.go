package conform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	drains    = "after a drain and the end of the stream it exits with status 0 within 5 s"
	exitsSelf = "it exits within 5 s when its host vanishes"
)

// endChecks returns the checks of the end of a process, and then the checks of all processes together.
func endChecks() []check {
	return append([]check{
		{
			name: drains, needs: []string{saysHello},
			asks: "when the stream ends the program exits by itself, with status 0",
			see:  seeDrain,
		},
		{
			name: "what it has when the drain comes is answered", needs: []string{finishesOnce},
			asks: "after a drain nothing more will come: answer what you have; the host closes the stream after the last answer",
			see:  seeAnswersAfterDrain,
		},
		{
			name: exitsSelf, needs: []string{saysHello},
			asks: "exit when the stream ends, for whatever reason: the host is done with you, or gone",
			see:  seeHostVanish,
		},
	}, lastChecks()...)
}

// lastChecks returns the checks of all processes together.
func lastChecks() []check {
	return []check{
		{
			name: "no process is left when it has exited", needs: []string{saysHello},
			asks: "what a handler starts ends before the handler does",
			see: func(x *exam) error {
				switch {
				case len(x.leftovers) > 0:
					return fmt.Errorf("it left %s", strings.Join(x.leftovers, ", "))
				case x.ended == 0:
					return reason("it did not exit by itself")
				}
				return nil
			},
		},
		{
			name: "nothing comes that was not asked for", needs: []string{saysHello},
			asks: "answers are for runs and pings that were sent, the hello is in the first frame only, and in a stream of lines each is a frame",
			see:  seeOddities,
		},
		{
			name: "what it prints after the handshake is for the log", needs: []string{saysHello},
			asks: "the standard output is redirected to the standard error after the handshake",
			see:  seePrinted,
		},
	}
}

func seeDrain(x *exam) error {
	s, err := x.open(plain.welcome())
	if err != nil {
		return err
	}
	defer x.endSession(s)
	if err := s.send(&wire.ToHandler{Drain: &wire.Drain{}}); err != nil {
		return err
	}
	if err := s.stream.CloseSend(); err != nil {
		return err
	}
	if err := x.exits(s); err != nil {
		return err
	}
	if state := s.proc.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("it ended (%v)%s", state, s.proc.lastErrors())
	}
	return nil
}

// exits waits for the process to end by itself and records the processes that it leaves behind.
func (x *exam) exits(s *session) error {
	if !s.proc.wait(exitWithin) {
		return fmt.Errorf("it was still running after %v%s", exitWithin, s.proc.lastErrors())
	}
	x.ended++
	x.leftovers = append(x.leftovers, s.proc.left()...)
	return nil
}

func seeAnswersAfterDrain(x *exam) error {
	run, err := x.harmless()
	if err != nil {
		return err
	}
	s, err := x.open(plain.welcome())
	if err != nil {
		return err
	}
	defer x.endSession(s)
	if err := s.await("a credit", func() bool { return s.credits > s.sent }); err != nil {
		return err
	}
	s.begin(run)
	if err := s.send(&wire.ToHandler{Runs: []*wire.Run{run}, Drain: &wire.Drain{}}); err != nil {
		return err
	}
	f, err := s.finish(run)
	if err != nil {
		return err
	}
	return begun(f)
}

func seeHostVanish(x *exam) error {
	s, err := x.open(plain.welcome())
	if err != nil {
		return err
	}
	defer x.endSession(s)
	s.vanish()
	return x.exits(s)
}

// vanish closes the stream and the pipes to the process, as the death of its host does.
func (s *session) vanish() {
	s.sever()
	<-s.over
	s.proc.stdin.Close()
	s.proc.stdout.Close()
}

func seeOddities(x *exam) error {
	x.clear()
	if len(x.odd) == 0 {
		return nil
	}
	const most = 3
	more := ""
	if n := len(x.odd) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return errors.New("there came " + strings.Join(x.odd[:min(most, len(x.odd))], "; ") + more)
}

// seePrinted remarks on output, which a host only logs.
func seePrinted(x *exam) error {
	switch {
	case x.shaken.transport == "json":
		return reason("its standard output is the stream")
	case x.printed != "":
		return remark(fmt.Sprintf("it printed to its standard output, such as %.100q: a host takes that for lines of its log", x.printed))
	}
	return nil
}
