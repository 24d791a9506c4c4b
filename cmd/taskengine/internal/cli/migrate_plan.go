package cli

import (
	"github.com/spf13/cobra"
)

func newMigratePlan(a *app) *cobra.Command {
	var flags databaseFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "List the applied migrations, with their time, and the pending ones",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := flags.one(a)
			if err != nil {
				return err
			}
			state, err := t.State(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.showMigrations(state.All()); err != nil {
				return err
			}
			if n := len(state.Pending); n > 0 {
				a.note("%d to come: taskengine migrate apply", n)
			}
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}
