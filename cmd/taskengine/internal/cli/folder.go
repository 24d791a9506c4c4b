package cli

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

// makeFolder makes a folder and those above it, and has sync make their names durable: a file
// that is synced in a folder whose own name is not durable can be gone after a power cut.
func makeFolder(folder string, sync func(folder string) error) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	var above []string // of those that are made, the deepest first
	for at := folder; ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			return err
		}
		above = append(above, filepath.Dir(at))
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for i := len(above) - 1; i >= 0; i-- {
		if err := sync(above[i]); err != nil {
			return fmt.Errorf("make the name of a folder in %s durable: %w", above[i], err)
		}
	}
	return nil
}

// partialLock is the file in a folder that is not complete which its process has locked.
const partialLock = "partial.lock"

// makePartial makes a folder beside another one, for what is to become that, and locks it. First
// it removes such folders of processes that were killed.
func makePartial(folder string) (partial string, lock io.Closer, err error) {
	within, prefix := filepath.Dir(folder), "."+filepath.Base(folder)+"-partial-"
	if err := removePartials(within, prefix); err != nil {
		return "", nil, err
	}
	if partial, err = os.MkdirTemp(within, prefix); err != nil {
		return "", nil, err
	}
	if lock, err = vfs.Default.Lock(filepath.Join(partial, partialLock)); err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock %s: %w", partial, err), os.RemoveAll(partial))
	}
	return partial, lock, nil
}

// removePartials removes the folders with this prefix that have a lock that nobody holds.
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
		if _, err := os.Lstat(filepath.Join(name, partialLock)); err != nil {
			continue // none of ours, or of one that is about to lock it
		}
		lock, err := vfs.Default.Lock(filepath.Join(name, partialLock))
		if err != nil {
			continue // its process lives
		}
		if err := errors.Join(os.RemoveAll(name), lock.Close()); err != nil {
			return fmt.Errorf("remove what a process that was killed has left: %w", err)
		}
	}
	return nil
}

// unlockPartial ends the lock of a folder that is complete.
func unlockPartial(partial string, lock io.Closer) error {
	return errors.Join(os.Remove(filepath.Join(partial, partialLock)), lock.Close())
}
