package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
)

func newRestore(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "restore FOLDER --to STORE",
		Short: "Make a store of a backup",
		Long: `Copy a backup to the folder of a store, which must be empty or not there. First every file
of the backup is held against what it says of itself, and then every index against the tasks;
if anything is missing or has changed, nothing is restored. The backup stays as it is.

` + placeHelp + `

The store goes back to the moment of the backup: tasks that have ended since run again, and
those that were added since are missing. To restore to a store of another kind, use
"taskengine copy --from pebble:FOLDER".`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.placeOf(to, "")
			if err != nil {
				return err
			}
			if p.driver == config.Postgres {
				return exit(exitUsage, "a backup in files is brought to PostgreSQL by taskengine copy; what pg_dump has written, pg_restore restores")
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error { return a.restore(ctx, p, args[0]) })
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the store to make")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}

func (a *app) restore(ctx context.Context, p place, folder string) (err error) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	m, err := backupIn(from)
	if err == nil && m.driver() != p.driver {
		err = fmt.Errorf("the backup is of the driver %s and not %s; use taskengine copy", m.Driver, embedded(p.driver))
	}
	if err != nil {
		return err
	}
	if err := m.checkFiles(ctx, from); err != nil {
		return err
	}
	made, err := a.makeStore(ctx, m.driver(), p.path, m.filesIn(from), m.checkMade)
	if err != nil {
		return fmt.Errorf("restore %s: %w", from, err)
	}
	return a.showStore(backupJSON{made.path, from, made.tasks, made.bytes}, "%d tasks of %s are in %s (%s), checked\n")
}

// backupIn returns what the backup in a folder says about itself.
func backupIn(folder string) (*manifest, error) {
	m, err := readManifest(folder)
	if !errors.Is(err, errNoManifest) {
		return m, err
	}
	driver, missing := storeIn(folder)
	if missing != nil {
		return nil, missing
	}
	return nil, fmt.Errorf("%w: not all of a backup is there, or it is a store that was copied by hand. If its node was stopped then, "+
		"`taskengine copy --from %s:%s` takes over the tasks in it; whether any are missing nobody can tell", err, embedded(driver), folder)
}

// filesIn hands over the files of a backup.
func (m *manifest) filesIn(folder string) func(fileFunc) error {
	return func(file fileFunc) error {
		for _, f := range m.Files {
			if err := handOver(filepath.Join(folder, f.Name), file); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkMade returns an error unless what was made is what was backed up. It looks at the
// files once more: their folder is nobody's, and may have changed since it was verified.
func (m *manifest) checkMade(_ string, made madeStore) error {
	for i, f := range m.Files {
		if err := f.differs(made.files[i]); err != nil {
			return err
		}
	}
	if made.tasks != m.Tasks {
		return fmt.Errorf("there are %d tasks in these files, and %d were backed up; use another backup", made.tasks, m.Tasks)
	}
	return nil
}

func handOver(name string, file fileFunc) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return file(filepath.Base(name), info.Size(), f)
}
