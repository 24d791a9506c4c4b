package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newWorkerDrain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drain WORKER",
		Short: "Have a worker of the node end after its running tasks",
		Long: `Have a worker of the node end after its running tasks. WORKER is the first column of worker
list, or a name: then all workers with the name are drained. The node sends them no more tasks.
A worker that is connected to several nodes ends when each of them has drained it, so give the
command for every node. The command does not wait for the end of the tasks.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.DrainWorker, &taskenginev1.DrainWorkerRequest{Worker: args[0]})
				if err != nil {
					return err
				}
				return a.showWorkers(res.GetWorkers())
			})
		},
	}
}
