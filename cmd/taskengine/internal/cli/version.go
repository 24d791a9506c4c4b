package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newVersion(a *app) *cobra.Command {
	var remote bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this program, or a node, is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !remote {
				return a.showVersion(a.build)
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.Version, &taskenginev1.VersionRequest{})
				if err != nil {
					return err
				}
				return a.showVersion(server.Build{Version: res.GetVersion(), Commit: res.GetCommit(), Date: res.GetDate(), Go: res.GetGo()})
			})
		},
	}
	cmd.Flags().BoolVar(&remote, "server", false, "the node's version, not this program's")
	return cmd
}

func (a *app) showVersion(b server.Build) error {
	if a.json() {
		return a.printJSON(b)
	}
	line := "taskengine " + b.Version
	for _, part := range []string{b.Commit, b.Date, b.Go} {
		if part != "" {
			line += " " + part
		}
	}
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}
