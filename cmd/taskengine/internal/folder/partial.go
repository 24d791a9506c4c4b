package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile is the file in a partial folder that its process has locked.
const lockFile = "partial.lock"

// Partial is a folder that is filled beside the one that it is to become. A process that is
// killed leaves it behind, unlocked, and the next [MakePartial] for the same folder removes it.
type Partial struct {
	Path   string // the folder to fill
	folder string // the name that it gets
	lock   io.Closer
}

// MakePartial makes a partial folder for a folder that is absent or empty, and locks it. The
// caller ends with either [Partial.Finish] or [Partial.Remove].
func MakePartial(folder string) (*Partial, error) {
	if err := checkVacant(folder); err != nil {
		return nil, err
	}
	within, prefix := filepath.Dir(folder), "."+filepath.Base(folder)+"-partial-"
	if err := removePartials(within, prefix); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(within, prefix)
	if err != nil {
		return nil, err
	}
	lock, err := vfs.Default.Lock(filepath.Join(path, lockFile))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), os.RemoveAll(path))
	}
	return &Partial{Path: path, folder: folder, lock: lock}, nil
}

// checkVacant returns an error unless a folder is absent or empty.
func checkVacant(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty; name another folder, nothing is ever overwritten", folder)
	}
	return err
}

// removePartials removes the folders with this prefix and an unlocked lock file.
func removePartials(within, prefix string) error {
	entries, err := os.ReadDir(within)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(within, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(name, lockFile)); err != nil {
			continue // not a partial folder, or one that another process is about to lock
		}
		lock, err := vfs.Default.Lock(filepath.Join(name, lockFile))
		if err != nil {
			continue // its process is alive
		}
		if err := errors.Join(os.RemoveAll(name), lock.Close()); err != nil {
			return fmt.Errorf("remove the remains of a killed process: %w", err)
		}
	}
	return nil
}

// Finish unlocks the folder, makes the names in it durable and renames it. After an error the
// caller calls Remove.
func (p *Partial) Finish() error {
	if err := errors.Join(os.Remove(filepath.Join(p.Path, lockFile)), p.unlock()); err != nil {
		return err
	}
	return errors.Join(os.Chmod(p.Path, 0o750), Sync(p.Path), p.rename())
}

// rename gives the folder its name. An empty folder of that name is replaced.
func (p *Partial) rename() error {
	if err := os.Remove(p.folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(p.Path, p.folder); err != nil {
		return err
	}
	return Sync(filepath.Dir(p.folder))
}

// Remove unlocks the folder and removes it with everything in it.
func (p *Partial) Remove() error {
	return errors.Join(p.unlock(), os.RemoveAll(p.Path))
}

// unlock releases the lock, once.
func (p *Partial) unlock() error {
	if p.lock == nil {
		return nil
	}
	lock := p.lock
	p.lock = nil
	return lock.Close()
}
