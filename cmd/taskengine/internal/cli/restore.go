package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func newRestore(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "restore FOLDER --to STORE",
		Short: "Make a store of a backup",
		Long: `Copy a backup to the folder of a store, which must be empty or missing. First every file of the
backup is checked against its checksum, and then every index against the tasks; if anything is
missing or has changed, nothing is restored. The backup stays as it is.

` + locationHelp + `

The store goes back to the moment of the backup: tasks that have ended since run again, and
tasks that were added since are missing. To restore to a store of another kind, use "taskengine
copy --from pebble:FOLDER".`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.locate(to, "")
			if err != nil {
				return err
			}
			if !p.Driver.InFiles() {
				return exit.Errorf(exit.Usage, "taskengine copy moves a backup in files to PostgreSQL; pg_restore restores a dump of pg_dump")
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error {
				made, err := backup.Restore(ctx, p, args[0], a.warnings())
				if err != nil {
					return err
				}
				return a.showMade(made)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the store to make")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}
