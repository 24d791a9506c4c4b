package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/top"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	topKinds    = 20               // kinds of errors that are asked for
	topPatience = 10 * time.Second // for one answer

	// Errors by kind may take long to count: they are counted again after so many times as long as that took.
	topKindsFactor = 50
	topKindsEvery  = 2 * time.Second // at least
)

func newTop(a *app) *cobra.Command {
	once := false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the numbers of the cluster, refreshed each second",
		Long: `Show rates, start latency, types, errors by kind and nodes of the cluster, refreshed each second: the numbers of
the overview of the dashboard. Rates and latencies are those of the last minute.

Keys: q ends the command, p stops and starts the refresh.

With --once, and if the standard output is not a terminal, the command prints the numbers once. If a node of the
cluster does not answer, the exit code is 10 then. With -o json it prints the answer of the node about types.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &topSource{app: a}
			defer s.close()
			if a.json() {
				return s.printOverview(cmd.Context())
			}
			first, err := s.ask(cmd.Context())
			if err != nil {
				return err
			}
			if out, ok := a.stdout.(*os.File); ok && !once && a.outTTY && !a.isDumb() {
				return a.showTop(cmd.Context(), s, out, first)
			}
			return a.printTop(first)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print the numbers once, as plain text")
	return cmd
}

// isDumb reports whether the terminal has no cursor that can be moved.
func (a *app) isDumb() bool { return a.getenv("TERM", "") == "dumb" }

// printTop prints one frame.
func (a *app) printTop(got *top.Answer) error {
	f := top.Frame{Answer: got, Now: time.Now()}
	if a.outTTY {
		f.Width = a.width()
	}
	for _, line := range f.Lines() {
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return err
		}
	}
	if len(got.Overview.GetSilent()) > 0 {
		return exit.With(exit.Partial, nil)
	}
	return nil
}

// showTop shows frames until a person quits, or a signal comes.
func (a *app) showTop(ctx context.Context, s *topSource, out *os.File, first *top.Answer) error {
	c := top.Config{Out: out, Colour: a.mayColour(), First: first, Ask: s.ask}
	if in, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		c.In = in
	}
	signals := listenToSignals(ctx, nil)
	defer signals.close()
	err := top.Show(signals.first, c)
	switch n := signals.number(); {
	case n != 0:
		return exit.With(exit.Signal+n, nil)
	case errors.Is(err, top.ErrInterrupted):
		return exit.With(exit.Signal+int(syscall.SIGINT), nil)
	}
	return err
}

// topSource asks a node. One goroutine uses it at a time.
type topSource struct {
	*app
	client *client // nil: there is none yet, or the last one has failed
	kinds  *taskenginev1.ListErrorsResponse

	kindsProblem string
	kindsAt      time.Time // when kinds was asked for
	kindsUntil   time.Time // until when it is shown
}

func (s *topSource) close() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// ask asks the node. If the one from before did not answer, it is the first of --address that takes a connection.
func (s *topSource) ask(ctx context.Context) (*top.Answer, error) {
	got, err := s.askAll(ctx)
	if err != nil {
		s.close()
	}
	return got, err
}

func (s *topSource) askAll(ctx context.Context) (got *top.Answer, err error) {
	if s.client == nil {
		if s.client, err = s.dial(); err != nil {
			return nil, err
		}
	}
	short, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	got = &top.Answer{Address: s.client.address, At: time.Now()}
	if got.Overview, err = call(short, s.client, s.client.Overview, &taskenginev1.OverviewRequest{}); err != nil {
		return nil, err
	}
	if got.Nodes, err = call(short, s.client, s.client.ListNodes, &taskenginev1.ListNodesRequest{}); err != nil {
		if got.NodesProblem = err.Error(); exit.Code(err) == exit.Unavailable {
			return nil, err
		}
	}
	s.askKinds(ctx)
	got.Kinds, got.KindsProblem, got.KindsAt = s.kinds, s.kindsProblem, s.kindsAt
	return got, nil
}

// askKinds counts the errors, unless they were just counted.
func (s *topSource) askKinds(ctx context.Context) {
	begin := time.Now()
	if begin.Before(s.kindsUntil) {
		return
	}
	kinds, err := call(ctx, s.client, s.client.ListErrors, &taskenginev1.ListErrorsRequest{Limit: topKinds})
	s.kinds, s.kindsProblem, s.kindsAt = kinds, "", begin
	if err != nil {
		s.kinds, s.kindsProblem = nil, err.Error()
	}
	s.kindsUntil = time.Now().Add(max(topKindsEvery, topKindsFactor*time.Since(begin)))
}

// printOverview prints the answer of the node about types.
func (s *topSource) printOverview(ctx context.Context) error {
	return s.with(func(c *client) error {
		got, err := call(ctx, c, c.Overview, &taskenginev1.OverviewRequest{})
		if err != nil {
			return err
		}
		if err := s.printMessage(got); err != nil || len(got.GetSilent()) == 0 {
			return err
		}
		return exit.With(exit.Partial, nil)
	})
}
