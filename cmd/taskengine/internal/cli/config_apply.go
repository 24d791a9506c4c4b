package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newConfigApply(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Have a node that runs read its configuration file again",
		Long: `Have a node that runs read its own configuration file again, as SIGHUP does, and show each change that it has
applied, and each that takes a restart. The file must be on the machine of the node: taskengine config diff shows the
same before. A file with a mistake changes nothing, and the exit code is 3. With --all every node of the cluster reads
its own file; if one does not answer, the exit code is 10.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ApplyConfig, &taskenginev1.ApplyConfigRequest{AllNodes: all})
				if err != nil {
					return err
				}
				if err := a.showAppliedConfigs(res.GetNodes()); err != nil {
					return err
				}
				if err := a.partial(res.GetSilent(), true); err != nil {
					return err
				}
				return failedToApply(res.GetNodes())
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every node of the cluster, each with its own file")
	return cmd
}

// showAppliedConfigs shows the changes of each node.
func (a *app) showAppliedConfigs(nodes []*taskenginev1.AppliedConfig) error {
	var rows [][]string
	for _, n := range nodes {
		if a.json() {
			if err := a.printMessage(n); err != nil {
				return err
			}
			continue
		}
		for _, c := range n.GetChanges() {
			takes := "applied"
			if c.GetRestart() {
				takes = "restart"
			}
			rows = append(rows, []string{clean(n.GetNode()), clean(c.GetKey()), clean(c.GetBefore()), clean(c.GetAfter()), takes})
		}
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"NODE", "KEY", "BEFORE", "AFTER", "TAKES"}, rows)
}

// failedToApply returns an error if a node has a problem.
func failedToApply(nodes []*taskenginev1.AppliedConfig) (err error) {
	for _, n := range nodes {
		switch {
		case n.GetProblem() == "":
		case n.GetUnchanged():
			return exit.Errorf(exit.Config, "node %s has changed nothing: %s", clean(n.GetNode()), clean(n.GetProblem()))
		case err == nil:
			err = exit.Errorf(exit.Failure, "node %s has not applied all of its file: %s", clean(n.GetNode()), clean(n.GetProblem()))
		}
	}
	return err
}
