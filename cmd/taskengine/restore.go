package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		Long: `Copy a backup to the folder of a store, which must be empty or not there, and check it
before it gets there: every index is held against the tasks. The backup stays as it is.

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
	driver, err := storeIn(from)
	if err == nil && driver != p.driver {
		err = fmt.Errorf("the backup is of the driver %s and not %s; use taskengine copy", embedded(driver), embedded(p.driver))
	}
	if err != nil {
		return err
	}
	// While it is open, no node can change it.
	backup, err := place{driver: driver, path: from}.look(ctx, a.newLog(config.Log{Level: slog.LevelWarn}))
	if err != nil {
		return fmt.Errorf("the backup cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	made, err := a.makeStore(ctx, driver, p.path, func(file fileFunc) error { return readFiles(from, file) })
	if err != nil {
		return fmt.Errorf("restore %s: %w", from, err)
	}
	return a.showStore(backupJSON{made.path, from, made.tasks, made.bytes}, "%d tasks of %s are in %s (%s), checked\n")
}

// readFiles hands over the files of a folder, but for the one that locks it.
func readFiles(folder string, file fileFunc) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "LOCK" || !e.Type().IsRegular() {
			continue
		}
		if err := handOver(filepath.Join(folder, e.Name()), file); err != nil {
			return err
		}
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
