package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newNodeDrain(a *app) *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Have a node stop after its running tasks",
		Long: `Have a node stop after its running tasks, as SIGTERM does: it starts no more tasks, the other nodes take over its
shards, and its process ends after node.drain_timeout at the latest. NODE is its name, or its id if several nodes have
the name. The command does not wait for the end. What starts the process again, such as systemd with Restart=always,
starts this node again, too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.DrainNode, &taskenginev1.DrainNodeRequest{Node: args[0], By: by})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res.GetNode())
				}
				a.note("node %s drains", clean(res.GetNode().GetName()))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", operator(), "who drains the node, for its log")
	return cmd
}
