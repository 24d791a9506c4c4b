package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
)

// changeJSON is a change of a configuration in JSON, described in docs/cli.md.
type changeJSON struct {
	Key     string `json:"key"`
	Before  string `json:"before"`
	After   string `json:"after"`
	Restart bool   `json:"restart"`
}

func newConfigDiff(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "diff BEFORE",
		Short: "Show the changes of a configuration, and which of them take a restart",
		Long: `Compare the configuration file BEFORE with the configuration, key by key with the defaults, and say
of each change whether a node that runs applies it on SIGHUP, or takes a restart. Secrets are
compared and not shown.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := flags.find(); err != nil {
				return err
			}
			after, err := flags.load(a)
			if err != nil {
				return err
			}
			before, err := config.Load(args[0], flags.sets, a.env)
			if err != nil {
				return exit.With(exit.Config, err)
			}
			var rows [][]string
			for _, c := range config.Changes(before, after) {
				if a.json() {
					if err := a.printJSON(changeJSON{c.Key, c.Before, c.After, !c.IsLive}); err != nil {
						return err
					}
					continue
				}
				takes := "restart"
				if c.IsLive {
					takes = "reload"
				}
				rows = append(rows, []string{c.Key, c.Before, c.After, takes})
			}
			if a.json() {
				return nil
			}
			return a.printTable([]string{"KEY", "BEFORE", "AFTER", "TAKES"}, rows)
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}
