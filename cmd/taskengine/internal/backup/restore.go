package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
)

// Restore makes a store at p of the backup in a folder. The folder of the store must be absent or
// empty. If a file of the backup is missing or has changed, Restore makes nothing.
func Restore(ctx context.Context, p stores.Location, from string, log *slog.Logger) (Made, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return Made{}, err
	}
	m, err := backupIn(from)
	if err != nil {
		return Made{}, err
	}
	if m.Driver != p.Driver.String() {
		return Made{}, fmt.Errorf("the backup is of the driver %s and not %s; use taskengine copy", m.Driver, p.Driver)
	}
	if err := m.checkFiles(ctx, from); err != nil {
		return Made{}, err
	}
	made, err := build(ctx, p.Driver, p.Path, log, m.filesIn(from), m.checkMade)
	if err != nil {
		return Made{}, fmt.Errorf("restore %s: %w", from, err)
	}
	made.From = from
	return made, nil
}

// backupIn returns the manifest of the backup in a folder.
func backupIn(folder string) (*Manifest, error) {
	m, err := ReadManifest(folder)
	if !errors.Is(err, ErrNoManifest) {
		return m, err
	}
	driver, missing := stores.In(folder)
	if missing != nil {
		return nil, missing
	}
	return nil, fmt.Errorf("%w: not all of a backup is there, or it is a store that was copied by hand. If its node was stopped then, "+
		"`taskengine copy --from %s:%s` takes over the tasks in it; it cannot find out whether any are missing", err, driver, folder)
}

// filesIn passes the files of a backup on.
func (m *Manifest) filesIn(folder string) func(fileFunc) error {
	return func(file fileFunc) error {
		for _, f := range m.Files {
			if err := readFile(filepath.Join(folder, f.Name), file); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkMade returns an error unless the restored files and tasks match the backup. It compares the
// checksums again: the files of the backup may have changed since they were verified.
func (m *Manifest) checkMade(_ string, made Made) error {
	for i, f := range m.Files {
		if err := f.differs(made.files[i]); err != nil {
			return err
		}
	}
	if made.Tasks != m.Tasks {
		return fmt.Errorf("there are %d tasks in these files, and %d were backed up; use another backup", made.Tasks, m.Tasks)
	}
	return nil
}

// readFile passes a file to file.
func readFile(name string, file fileFunc) error {
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
