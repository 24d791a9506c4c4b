package cli

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newEvents(a *app) *cobra.Command {
	req := &taskenginev1.EventsRequest{CatchUp: true, Timeout: durationpb.New(pollFor)}
	liveOnly := false
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show changes of tasks as they are made",
		Long: `Show the changes of tasks that the nodes of a cluster make, one in a line, as they come: the task as it
is after each change. If a node does not answer, a line says so, and its changes come later. If the node
that was asked stops, the command goes on at another address, or waits for it.

--since takes a cursor, which each event has in JSON, a time, or a duration such as 1h. If the node does not
have all changes since then, a line says so, and the tasks follow that have changed meanwhile, as the store
has them now. --live leaves these out.

    taskengine events --where 'state=error,failed type=pay*' -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.CatchUp = !liveOnly
			return a.with(func(c *client) error { return a.follow(cmd.Context(), c, req) })
		},
	}
	cmd.Flags().StringSliceVar(&req.Types, "type", nil, "only tasks of this type; may be given more than once")
	cmd.Flags().StringVar(&req.Where, "where", "", "only tasks that this filter selects after the change")
	cmd.Flags().StringVar(&req.Cursor, "since", "", "a cursor, a time or a duration to begin at; without it, at the present")
	cmd.Flags().BoolVar(&liveOnly, "live", false, "after a gap, do not show the tasks that have changed meanwhile")
	return cmd
}

// follow shows events until ctx ends.
func (a *app) follow(ctx context.Context, c *client, req *taskenginev1.EventsRequest) error {
	s := &streams[taskenginev1.EventsResponse]{
		node: waiter{client: c},
		open: func(ctx context.Context) (*connect.ServerStreamForClient[taskenginev1.EventsResponse], error) {
			return c.Events(ctx, req)
		},
		show: func(res *taskenginev1.EventsResponse) (complete bool, err error) {
			if err := a.showSilent(res.GetSilent()); err != nil {
				return false, err
			}
			if err := a.showGap(res.GetGap()); err != nil {
				return false, err
			}
			for _, e := range res.GetEvents() {
				if err := a.showEvent(e); err != nil {
					return false, err
				}
			}
			req.Cursor = res.GetCursor()
			return false, nil
		},
	}
	return s.run(ctx)
}

// showSilent shows the nodes that do not answer.
func (a *app) showSilent(nodes []*taskenginev1.SilentNode) error {
	for _, n := range nodes {
		if !a.json() {
			a.note("node %s does not answer, and its changes come later: %s", clean(n.GetNode()), clean(n.GetProblem()))
			continue
		}
		o := messageJSON(n)
		o.set("kind", "silent")
		if err := a.printJSON(o); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showGap(g *taskenginev1.EventGap) error {
	if g == nil {
		return nil
	}
	if a.json() {
		o := messageJSON(g)
		o.set("kind", "gap")
		return a.printJSON(o)
	}
	_, err := fmt.Fprintln(a.stdout, clean(fmt.Sprintf("%s  changes since %s may be missing: %s", g.GetUntil().AsTime().Format(logTime), g.GetFrom().AsTime().Format(logTime), g.GetText())))
	return err
}

func (a *app) showEvent(e *taskenginev1.TaskEvent) error {
	if a.json() {
		o := messageJSON(e)
		o.set("kind", "task")
		return a.printJSON(o)
	}
	t := e.GetTask()
	line := fmt.Sprintf("%s  %-10s  %s  %s", e.GetAt().AsTime().Format(logTime), t.GetState(), t.GetId(), t.GetType())
	if t.GetKey() != "" {
		line += " key=" + t.GetKey()
	}
	if e.GetFromStore() {
		line += " (from the store)"
	}
	if t.GetError() != "" {
		line += "  " + t.GetError()
	}
	_, err := fmt.Fprintln(a.stdout, clean(line))
	return err
}
