package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newWorkerList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workers that are connected to the node",
		Long: `List the workers that are connected to the node: programs that run the tasks of a handler
with remote, and that the node does not start. Other nodes have a list of their own.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListWorkers, &taskenginev1.ListWorkersRequest{})
				if err != nil {
					return err
				}
				return a.showWorkers(res.GetWorkers())
			})
		},
	}
}
