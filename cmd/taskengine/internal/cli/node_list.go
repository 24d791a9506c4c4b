package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newNodeList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the nodes of the cluster that are alive",
		Long: `List the nodes of the cluster that are alive, with their roles, shards, load and clocks. Each node is asked
for these. One that does not answer is listed as silent, and the exit code is 10.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListNodes, &taskenginev1.ListNodesRequest{})
				if err != nil {
					return err
				}
				if err := a.showNodes(res.GetNodes()); err != nil {
					return err
				}
				return a.partial(res.GetSilent(), true)
			})
		},
	}
}

func newNodeShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NODE",
		Short: "Show one node of the cluster",
		Long:  "Show one node of the cluster. NODE is its name, or its id.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListNodes, &taskenginev1.ListNodesRequest{Node: args[0]})
				if err != nil {
					return err
				}
				for _, n := range res.GetNodes() {
					if a.json() {
						err = a.printMessage(n)
					} else {
						_, err = fmt.Fprint(a.stdout, nodeText(n))
					}
					if err != nil {
						return err
					}
				}
				return a.partial(res.GetSilent(), true)
			})
		},
	}
}
