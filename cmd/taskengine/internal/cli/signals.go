package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/reaper"
)

// signals are requests to stop: the first one in order, the second one at once. SIGHUP asks for a
// reload instead, if reload is not nil.
type signals struct {
	first, second context.Context // end with the signal; the cause names it
	reload        chan<- struct{} // has room for one request; nil if the program reloads nothing
	received      chan os.Signal
	last          atomic.Int32 // number of the newest
	cancel        []context.CancelCauseFunc
	done          chan struct{}
}

// listenToSignals listens until the signals are closed. The end of ctx counts as the first signal.
// SIGHUP sends to reload unless that is nil.
func listenToSignals(ctx context.Context, reload chan<- struct{}) *signals {
	s := &signals{reload: reload, received: make(chan os.Signal, 2), done: make(chan struct{})}
	var first, second context.CancelCauseFunc
	s.first, first = context.WithCancelCause(ctx)
	s.second, second = context.WithCancelCause(context.WithoutCancel(ctx))
	s.cancel = []context.CancelCauseFunc{first, second}
	signal.Notify(s.received, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go s.listen()
	return s
}

func (s *signals) listen() {
	defer close(s.done)
	n := 0
	for sig := range s.received {
		if sig == syscall.SIGHUP && s.reload != nil {
			select {
			case s.reload <- struct{}{}:
			default: // a reload is pending, and it reads the configuration after this signal
			}
			continue
		}
		if number, ok := sig.(syscall.Signal); ok {
			s.last.Store(int32(number))
		}
		if n < len(s.cancel) {
			s.cancel[n](fmt.Errorf("signal: %v", sig))
		}
		n++
	}
}

// number returns the number of the newest signal.
func (s *signals) number() int { return int(s.last.Load()) }

func (s *signals) close() {
	signal.Stop(s.received)
	close(s.received)
	<-s.done
	for _, cancel := range s.cancel {
		cancel(nil)
	}
}

// outliveReaders lets the process go on when the reader of its standard output or error ends, such as a log collector that
// is restarted: writes fail from then on. Without a listener, Go ends the process with SIGPIPE. If the signal was ignored
// instead, the children of the process would ignore it, too.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// asFirstProcess runs the command of a node. If this is process 1 of a container, the command runs in a child process,
// so that no zombies are left: see package reaper.
func (a *app) asFirstProcess(run func() error) error {
	if !reaper.Needed() {
		return run()
	}
	code, err := reaper.Run()
	if err != nil {
		a.note("taskengine: %v; ended processes that are not its own stay zombies", err)
		return run()
	}
	return exit.With(code, nil)
}

// untilSignalled runs fn with a context that ends with a signal. If fn fails after a signal, the
// error has the exit code of the signal.
func untilSignalled(ctx context.Context, fn func(context.Context) error) error {
	signals := listenToSignals(ctx, nil)
	defer signals.close()
	err := fn(signals.first)
	if n := signals.number(); err != nil && n != 0 {
		return exit.Errorf(exit.Signal+n, "interrupted: run the same command again")
	}
	return err
}
