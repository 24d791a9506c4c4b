package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newWorkerList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workers that are connected to nodes",
		Long: `List the workers that are connected to the nodes of the cluster: programs that run the tasks of a handler
with remote, and that no node starts. A worker that is connected to several nodes is listed for
each of them. If a node does not answer, the exit code is 10.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListWorkers, &taskenginev1.ListWorkersRequest{})
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
