package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newWorkerDrain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drain WORKER",
		Short: "Have a worker end after its running tasks",
		Long: `Have a worker end after its running tasks. WORKER is its id of worker list, or a name: then all workers
with the name are drained, by all nodes of the cluster. The nodes send them no more tasks. A worker
that is connected to several nodes ends when each of them has drained it: if a node does not
answer, the exit code is 10. The command does not wait for the end of the tasks.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.DrainWorker, &taskenginev1.DrainWorkerRequest{Worker: args[0]})
				if err != nil {
					return err
				}
				if err := a.showWorkers(res.GetWorkers()); err != nil {
					return err
				}
				return a.partial(res.GetSilent(), true)
			})
		},
	}
}
