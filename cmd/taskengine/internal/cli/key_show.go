package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newKeyShow(a *app) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show the tasks of an ordering key that run or wait, in the order of their runs",
		Long: `Show the tasks of an ordering key that run or wait, in the order of their runs: the head first,
then the tasks behind it. Tasks that have ended are not shown, nor errors that no task waits
for. With -o json, each task is one line, and its field turn is head or behind.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 or more", limit)
			}
			return a.with(func(c *client) error { return a.showKey(cmd, c, args[0], limit) })
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many of the tasks behind the head")
	return cmd
}

// showKey shows the head of a key and at most limit tasks behind it.
func (a *app) showKey(cmd *cobra.Command, c *client, key string, limit int) error {
	req := &taskenginev1.GetKeyRequest{Key: key}
	var tasks []*taskenginev1.Task
	for left, begun := limit, false; left > 0; begun = true {
		req.Limit = uint32(min(left, server.MaxList))
		res, err := call(cmd.Context(), c, c.GetKey, req)
		if err != nil {
			return aboutKey(key, err)
		}
		if h := res.GetHead(); h != nil && !begun {
			tasks = append(tasks, h)
		}
		tasks = append(tasks, res.GetBehind()...)
		left -= len(res.GetBehind())
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if req.GetPageToken() != "" {
		a.note("there are more; --limit shows them")
	}
	return a.showTasks(tasks...)
}
