package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskLogs(a *app) *cobra.Command {
	var follow bool
	var attempt uint32
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what handlers have logged about a task",
		Long: `Show what handlers have logged about a task on the node, the oldest line first, as far
as the node has kept it.

With --follow, lines are shown as they come, until the task has ended, however it did. A
node that restarts meanwhile is waited for.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				shown := 0
				t := &tail{
					node: waiter{client: c},
					req: &taskenginev1.TaskLogsRequest{
						Id: args[0], Attempt: attempt, Follow: follow, Timeout: durationpb.New(pollFor),
					},
					show: func(line *taskenginev1.LogLine) error {
						shown++
						return a.showLogLine(line)
					},
				}
				err := t.run(cmd.Context())
				if err == nil && shown == 0 {
					a.note("nothing was logged, or it is not kept any more")
				}
				return aboutTask(args[0], err)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines until the task has ended")
	cmd.Flags().Uint32Var(&attempt, "attempt", 0, "only the lines of this attempt")
	return cmd
}

// logTime is how the time of a line is shown, in UTC.
const logTime = "2006-01-02T15:04:05.000Z"

// showLogLine writes one line of a task's log.
func (a *app) showLogLine(l *taskenginev1.LogLine) error {
	if a.json() {
		return a.printJSON(logLineToJSON(l))
	}
	attrs := l.GetAttrs()
	if attrs != "" {
		attrs = " " + attrs
	}
	_, err := fmt.Fprintln(a.stdout, clean(fmt.Sprintf("%s #%d %-5s %s%s",
		l.GetTime().AsTime().Format(logTime), l.GetAttempt(), l.GetLevel(), l.GetMessage(), attrs)))
	return err
}

func logLineToJSON(l *taskenginev1.LogLine) logLineJSON {
	j := logLineJSON{
		Time: l.GetTime().AsTime(), Attempt: l.GetAttempt(), Level: l.GetLevel(), Message: l.GetMessage(),
		Dropped: l.GetDropped(), Cut: l.GetCut(),
	}
	if attrs := []byte(l.GetAttrs()); json.Valid(attrs) {
		j.Attrs = attrs
	}
	return j
}

// tail shows the log of a task, by one stream after another.
type tail struct {
	node waiter // knows how long the node may be away
	req  *taskenginev1.TaskLogsRequest
	show func(*taskenginev1.LogLine) error
}

// showError is an error of showing lines, not of the node.
type showError struct{ error }

func (t *tail) run(ctx context.Context) error {
	for {
		complete, err := t.stream(ctx)
		var shown showError
		switch {
		case errors.As(err, &shown):
			return shown.error
		case err == nil && complete:
			return nil
		case err == nil:
			continue
		case ctx.Err() != nil || !t.mayComeBack(err):
			return t.node.client.explain(err)
		}
		if err := pause(ctx, retryAfter); err != nil {
			return err
		}
	}
}

// mayComeBack reports whether a node may go on where a stream broke off.
func (t *tail) mayComeBack(err error) bool {
	if !connect.IsWireError(err) && !isRefused(err) && !t.node.heard.IsZero() { // broken off amid a stream
		return time.Since(t.node.heard) < pollFor+patience
	}
	return t.node.worthAnother(err)
}

// stream shows the lines of one stream. It reports whether the log ended with them.
func (t *tail) stream(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(pollFor+pollGrace, cancel) // showing may take as long as it likes
	defer silence.Stop()
	stream, err := t.node.client.TaskLogs(ctx, t.req)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for stream.Receive() {
		silence.Stop()
		for _, line := range stream.Msg().GetLines() {
			if err := t.show(line); err != nil {
				return false, showError{err}
			}
		}
		t.node.heard = time.Now()
		t.req.Cursor, complete = stream.Msg().GetCursor(), stream.Msg().GetComplete()
		silence.Reset(pollFor + pollGrace)
	}
	return complete, stream.Err()
}
