package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	// pollFor is how long one request waits at most.
	pollFor = 20 * time.Second
	// pollGrace is how much longer than its poll a request may take.
	pollGrace = 10 * time.Second
	// patience is how long a node may be away while it is waited for: it may restart.
	patience   = 30 * time.Second
	retryAfter = 500 * time.Millisecond
)

func newTaskWait(a *app) *cobra.Command {
	var typ string
	var timeout duration
	cmd := &cobra.Command{
		Use:   "wait ID... | --type T",
		Short: "Wait until tasks have ended",
		Long: `Wait until none of the named tasks, or tasks of the named type, is waiting, submitted or
processing any more.

With IDs, the exit code is 1 if one of the tasks did not end done, and 4 if one does not exist.
It is 7 if the timeout is over before. If the node restarts, the command waits for it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (typ == "") {
				return errors.New("want either IDs or --type")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				ids, err := c.taskIDs(cmd.Context(), args)
				if err != nil {
					return err
				}
				w := waiter{
					client: c, timeout: time.Duration(timeout), req: &taskenginev1.WaitRequest{Ids: ids, Type: typ}, say: a.patient(),
				}
				res, err := w.wait(cmd.Context())
				if err != nil {
					return err
				}
				return a.showSettled(typ, res)
			})
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "all tasks of this type")
	cmd.Flags().Var(&timeout, "timeout", "how long to wait; without it, for ever")
	return cmd
}

// showSettled writes the final states of the awaited tasks, and returns an error unless all are done.
func (a *app) showSettled(typ string, res *taskenginev1.WaitResponse) error {
	if a.json() {
		o := messageJSON(res)
		if typ != "" {
			o.set("type", typ)
		}
		if err := a.printJSON(o); err != nil {
			return err
		}
	} else if len(res.GetTasks()) > 0 {
		if err := a.showTasks(res.GetTasks()...); err != nil {
			return err
		}
	}
	return settlement(res)
}

// settlement returns the error that it is when tasks that were waited for are not all
// done.
func settlement(res *taskenginev1.WaitResponse) error {
	var undone, live []string
	for _, t := range res.GetTasks() {
		switch t.GetState() {
		case "done":
		case "error", "failed", "cancelled":
			undone = append(undone, fmt.Sprintf("%s is %s", t.GetId(), t.GetState()))
		default:
			live = append(live, fmt.Sprintf("%s is %s", t.GetId(), t.GetState()))
		}
	}
	switch {
	case !res.GetSettled() && len(live) > 0:
		return exit.Errorf(exit.Unavailable, "the time is over: %s", firstOf(live))
	case !res.GetSettled():
		return exit.Errorf(exit.Unavailable, "the time is over, and some are live still")
	case len(undone) > 0:
		return exit.Errorf(exit.Failure, "not done: %s", firstOf(undone))
	case len(res.GetMissing()) > 0:
		return exit.Errorf(exit.NotFound, "not there, or not kept after their end: %s", firstOf(res.GetMissing()))
	}
	return nil
}

// firstOf joins the first few of a list.
func firstOf(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// waiter waits for tasks by one long poll after another.
type waiter struct {
	client   *client
	req      *taskenginev1.WaitRequest
	timeout  time.Duration                    // 0 is for ever
	deadline time.Time                        // zero is never
	heard    time.Time                        // when the node answered last; zero is never
	say      func(format string, args ...any) // prints progress at a terminal; nil without one
}

// patient returns a function that prints why a command does not return; nil if the standard error
// is no terminal.
func (a *app) patient() func(format string, args ...any) {
	if !a.errTTY {
		return nil
	}
	return a.note
}

// printProgress prints the awaited tasks; res is the last answer, nil before the first.
func (w *waiter) printProgress(begin time.Time, res *taskenginev1.WaitResponse) {
	if w.say == nil {
		return
	}
	what := "task " + firstOf(w.req.GetIds())
	if typ := w.req.GetType(); typ != "" {
		what = "all tasks of type " + typ
	}
	if res == nil {
		w.say("waiting for %s to end; Ctrl-C ends the wait and stops no task", what)
		return
	}
	var live []string
	for _, t := range res.GetTasks() {
		if slices.Contains([]string{"waiting", "submitted", "processing"}, t.GetState()) {
			live = append(live, fmt.Sprintf("%s is %s for %s", t.GetId(), t.GetState(), age(time.Now(), t.GetUpdatedAt())))
		}
	}
	if len(live) > 0 {
		what = firstOf(live)
	}
	w.say("still waiting after %s: %s", units.Span(time.Since(begin)), what)
}

// wait returns the last answer: settled, or not when the time is over.
func (w *waiter) wait(ctx context.Context) (*taskenginev1.WaitResponse, error) {
	if w.timeout > 0 {
		w.deadline = time.Now().Add(w.timeout)
	}
	begin := time.Now()
	w.printProgress(begin, nil)
	for {
		res, err := w.poll(ctx)
		if err == nil {
			w.heard = time.Now()
			if res.GetSettled() || w.over() {
				return res, nil
			}
			w.printProgress(begin, res)
			continue
		}
		if !w.worthAnother(err) {
			return nil, w.client.explain(err)
		}
		if err := pause(ctx, retryAfter); err != nil {
			return nil, err
		}
	}
}

func (w *waiter) poll(ctx context.Context) (*taskenginev1.WaitResponse, error) {
	poll := pollFor
	if !w.deadline.IsZero() {
		poll = min(poll, max(0, time.Until(w.deadline)))
	}
	w.req.Timeout = durationpb.New(poll)
	ctx, cancel := context.WithTimeout(ctx, poll+pollGrace)
	defer cancel()
	return w.client.Wait(ctx, w.req)
}

func (w *waiter) over() bool { return !w.deadline.IsZero() && !time.Now().Before(w.deadline) }

// worthAnother reports whether a node that cannot be reached may be back in time: it was
// there before.
func (w *waiter) worthAnother(err error) bool {
	if codeOf(err) != connect.CodeUnavailable || w.over() || tlsAdvice(err) != "" {
		return false
	}
	if w.heard.IsZero() && !isRefused(err) {
		w.heard = time.Now() // it took the request and then was gone
	}
	return !w.heard.IsZero() && time.Since(w.heard) < pollFor+patience
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
