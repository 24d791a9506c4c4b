package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
		Short: "Show the log lines of handlers about a task",
		Long: `Show the log lines of handlers about a task, the oldest attempt first. Each node keeps the lines of the
attempts that it ran, and all nodes that are alive are asked. A note names the nodes that did not
answer, and then the exit code is 10, and nodes that are not alive.

With --follow, lines are shown as they come, until the task has ended, with any outcome. If the
node restarts, the command waits for it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if args[0], err = c.taskID(cmd.Context(), args[0]); err != nil {
					return err
				}
				shown := make(map[uint32]bool)
				var elsewhere []*taskenginev1.RanElsewhere
				var silent []*taskenginev1.SilentNode
				req := &taskenginev1.TaskLogsRequest{
					Id: args[0], Attempt: attempt, Follow: follow, Timeout: durationpb.New(pollFor),
				}
				t := &streams[taskenginev1.TaskLogsResponse]{
					node: waiter{client: c},
					open: func(ctx context.Context) (*connect.ServerStreamForClient[taskenginev1.TaskLogsResponse], error) {
						return c.TaskLogs(ctx, req)
					},
					show: func(res *taskenginev1.TaskLogsResponse) (complete bool, err error) {
						for _, line := range res.GetLines() {
							shown[line.GetAttempt()] = true
							if err := a.showLogLine(line); err != nil {
								return false, err
							}
						}
						req.Cursor, elsewhere, silent = res.GetCursor(), res.GetElsewhere(), res.GetSilent()
						return res.GetComplete(), nil
					},
				}
				err = t.run(cmd.Context())
				if err == nil && len(shown) == 0 {
					a.note("the nodes that answer have no lines of the task: its handler has logged nothing there, or they are not kept any more")
				}
				for _, note := range elsewhereNotes(elsewhere, shown) {
					a.note("%s", clean(note))
				}
				if err == nil {
					return a.partial(silent, true)
				}
				return aboutTask(args[0], err)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines until the task has ended")
	cmd.Flags().Uint32Var(&attempt, "attempt", 0, "only the lines of this attempt")
	return cmd
}

// elsewhereNotes names the attempts that ran on other nodes and have no lines on this node.
func elsewhereNotes(all []*taskenginev1.RanElsewhere, shown map[uint32]bool) (notes []string) {
	attempts := make(map[string][]string) // by where they ran
	for _, ran := range all {
		if shown[ran.GetAttempt()] {
			continue
		}
		where := "on node " + ran.GetNode()
		switch {
		case ran.GetHere(), ran.GetAlive():
			where += ", which has no lines of it"
		default:
			where += ", which is not alive now: its lines are shown when it runs again"
		}
		if attempts[where] == nil {
			notes = append(notes, where)
		}
		attempts[where] = append(attempts[where], fmt.Sprint(ran.GetAttempt()))
	}
	for i, where := range notes {
		word := "attempt "
		if len(attempts[where]) > 1 {
			word = "attempts "
		}
		notes[i] = word + strings.Join(attempts[where], ", ") + " ran " + where
	}
	return notes
}

// logTime is how the time of a line is shown, in UTC.
const logTime = "2006-01-02T15:04:05.000Z"

// showLogLine writes one line of a task's log.
func (a *app) showLogLine(l *taskenginev1.LogLine) error {
	if a.json() {
		return a.printJSON(logLineJSON(l))
	}
	attrs := l.GetAttrs()
	if attrs != "" {
		attrs = " " + attrs
	}
	_, err := fmt.Fprintln(a.stdout, clean(fmt.Sprintf("%s #%d %-5s %s%s",
		l.GetTime().AsTime().Format(logTime), l.GetAttempt(), l.GetLevel(), l.GetMessage(), attrs)))
	return err
}

// logLineJSON returns a line with its attributes as the object that they are the text of.
func logLineJSON(l *taskenginev1.LogLine) jsonObject {
	o := messageJSON(l).without("attrs")
	o.set("message", l.GetMessage())
	if attrs := []byte(l.GetAttrs()); json.Valid(attrs) {
		o.set("attrs", json.RawMessage(attrs))
	}
	return o
}
