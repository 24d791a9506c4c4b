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
	for end := time.Now().Add(time.Duration(w.timeout)); s.GetOrders() > 0 && w.timeout > 0; {
		if time.Now().After(end) {
			text := fmt.Sprintf("the order is stored, but source %s has not carried it out within %v; it does so as soon as it can", clean(name), time.Duration(w.timeout))
			if s.GetProblem() != "" {
				text += ": " + clean(s.GetProblem())
			}
			return nil, exit.Errorf(exit.Unavailable, "%s", text)
		}
		select {
		case <-time.After(orderLook):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		res, err := call(ctx, c, c.GetSource, &taskenginev1.GetSourceRequest{Name: name})
		if err != nil {
			return nil, err
		}
		s = res.GetSource()
	}
	return s, nil
}

// newSourceEdit returns a command that gives a source an order, waits until it is carried out, and shows the source.
func newSourceEdit(a *app, verb, short, long string, do func(ctx context.Context, c *client, name string) (*taskenginev1.Source, error)) *cobra.Command {
	var wait sourceWait
	return wait.add(&cobra.Command{
		Use: verb + " NAME", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				s, err := do(cmd.Context(), c, args[0])
				if err == nil {
					s, err = wait.done(cmd.Context(), c, s)
				}
				if err != nil {
					return err
				}
				return a.showSourceRows(s)
			})
		},
	})
}

// showSourceRows writes sources as rows, or each as a line of JSON.
func (a *app) showSourceRows(sources ...*taskenginev1.Source) error {
	if a.json() {
		return printMessages(a, sources)
	}
	rows := make([][]string, len(sources))
	for i, s := range sources {
		rows[i] = []string{
			s.GetName(), topicWords(s), orUnknown(s.Lag), fmt.Sprintf("%d of %d", s.GetReading(), s.GetPartitionCount()), fmt.Sprint(s.GetRecords()),
			fmt.Sprint(s.GetTasks()), fmt.Sprint(s.GetUnreadable()), fmt.Sprint(s.GetSkipped()), fmt.Sprint(s.GetLost()), yesNo(s.GetPaused() != nil), s.GetProblem(),
		}
	}
	return a.printTable([]string{"SOURCE", "TOPICS", "LAG", "READING", "RECORDS", "TASKS", "UNREADABLE", "SKIPPED", "LOST", "PAUSED", "PROBLEM"}, rows,
		"SKIPPED", "RECORDS", "TOPICS", "LOST", "UNREADABLE")
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
