package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newConfigShow(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration in force, with its defaults and without secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.find(); err != nil {
				return err
			}
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, cfg.String())
			return err
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}
