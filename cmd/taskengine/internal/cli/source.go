package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of source share this file.

const (
	orderPatience = 30 * time.Second       // for a source to carry out an order, unless --timeout names another time
	orderLook     = 200 * time.Millisecond // between two looks whether it has
)

// sourceWait is how long a command waits until a source has carried out an order.
type sourceWait struct{ timeout duration }

func (w *sourceWait) add(cmd *cobra.Command) *cobra.Command {
	w.timeout = duration(orderPatience)
	cmd.Flags().Var(&w.timeout, "timeout", "how long to wait until the source has done it; with 0s the command only gives the order")
	return cmd
}

// done waits until a source has carried out its orders, and returns it.
func (w *sourceWait) done(ctx context.Context, c *client, s *taskenginev1.Source) (*taskenginev1.Source, error) {
	name := s.GetName()
	err := w.until(ctx, "source "+name, func() (uint32, string) { return s.GetOrders(), s.GetProblem() }, func() error {
		res, err := call(ctx, c, c.GetSource, &taskenginev1.GetSourceRequest{Name: name})
		s = res.GetSource()
		return err
	})
	return s, err
}

// until calls look until what a command has given an order to has carried out its orders.
func (w *sourceWait) until(ctx context.Context, what string, waits func() (orders uint32, problem string), look func() error) error {
	for end := time.Now().Add(time.Duration(w.timeout)); w.timeout > 0; {
		orders, problem := waits()
		switch {
		case orders == 0:
			return nil
		case time.Now().After(end):
			text := fmt.Sprintf("the order is stored, but %s has not carried it out within %v; it does so as soon as it can", clean(what), time.Duration(w.timeout))
			if problem != "" {
				text += ": " + clean(problem)
			}
			return exit.Errorf(exit.Unavailable, "%s", text)
		}
		select {
		case <-time.After(orderLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

// newSourceEdit returns a command that gives an order to a source of either kind or to a platform, waits until it is carried out, and
// shows what has the order.
func newSourceEdit(a *app, verb, short, long string, topics func(ctx context.Context, c *client, name, reason string) (*taskenginev1.Source, error),
	slices func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error),
) *cobra.Command {
	var o sliceOrder
	return o.addPrefix(o.add(&cobra.Command{
		Use: verb + " NAME", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err == nil {
				err = o.check(cmd, n)
			}
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return a.with(func(c *client) error {
				ofSlices, err := n.ofSlices(ctx, c)
				if err != nil {
					return err
				}
				if ofSlices {
					out, err := slices(ctx, c, n, &o)
					if err != nil {
						return err
					}
					return a.showSliceOutcome(ctx, c, n, out, &o)
				}
				if o.prefix != "" {
					return exit.Errorf(exit.Usage, "--prefix is for the platforms of a source of time slices, and %s is none", clean(n.source))
				}
				s, err := topics(ctx, c, n.source, o.reason)
				if err == nil {
					s, err = o.wait.done(ctx, c, s)
				}
				if err != nil {
					return err
				}
				return a.showSourceRows(s)
			})
		},
	}))
}

// showSourceRows writes sources as rows, or each as a line of JSON.
func (a *app) showSourceRows(sources ...*taskenginev1.Source) error {
	if a.json() {
		return printMessages(a, sources)
	}
	return a.printSheets(sourceSheet(sources))
}

func sourceSheet(sources []*taskenginev1.Source) sheet {
	rows := make([][]string, len(sources))
	for i, s := range sources {
		rows[i] = []string{
			s.GetName(), topicWords(s), orUnknown(s.Lag), fmt.Sprintf("%d of %d", s.GetReading(), s.GetPartitionCount()), fmt.Sprint(s.GetRecords()),
			fmt.Sprint(s.GetTasks()), fmt.Sprint(s.GetUnreadable()), fmt.Sprint(s.GetSkipped()), fmt.Sprint(s.GetLost()), yesNo(s.GetPaused() != nil), s.GetProblem(),
		}
	}
	return sheet{
		head: []string{"SOURCE", "TOPICS", "LAG", "READING", "RECORDS", "TASKS", "UNREADABLE", "SKIPPED", "LOST", "PAUSED", "PROBLEM"}, rows: rows,
		spare: []string{"SKIPPED", "RECORDS", "TOPICS", "LOST", "UNREADABLE"},
	}
}

// topicWords names the topics of a source.
func topicWords(s *taskenginev1.Source) string {
	if s.GetPattern() != "" {
		return "pattern " + s.GetPattern()
	}
	return strings.Join(s.GetTopics(), ",")
}

// orUnknown writes a number that may not be known.
func orUnknown(n *uint64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
