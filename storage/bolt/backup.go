package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/taskengine/taskengine/storage"
)

var _ storage.Backuper = (*Store)(nil)

// backupSuffix is appended to the path of the store for the copy that a backup makes.
const backupSuffix = ".backup-partial"

// Backup implements [storage.Backuper]. It first makes a copy of the file in the same folder.
// Meanwhile, an update that needs a larger file waits. Reading the copy blocks nothing, however
// slow the reader is.
func (s *Store) Backup(ctx context.Context, file func(string, int64, io.Reader) error) error {
	s.backup.Lock()
	defer s.backup.Unlock()
	path := s.db.Path()
	aside := path + backupSuffix
	defer func() { _ = os.Remove(aside) }() // if it remains, the next backup overwrites it
	if err := s.copyTo(ctx, aside); err != nil {
		return fmt.Errorf("bolt: backup: %w", err)
	}
	f, err := os.Open(aside)
	if err != nil {
		return fmt.Errorf("bolt: backup: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("bolt: backup: %w", err)
	}
	return file(filepath.Base(path), info.Size(), f)
}

// copyTo writes the contents that the file has at one moment to the file path.
func (s *Store) copyTo(ctx context.Context, path string) error {
	if err := s.enter(ctx, "backup"); err != nil {
		return err
	}
	defer s.leave()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(s.writeTo(f), f.Close())
}

func (s *Store) writeTo(f *os.File) (err error) {
	defer faultsPanic()()
	btx, _, err := s.begin(false)
	if err != nil {
		return err
	}
	defer s.end(btx, &err)
	defer catch(&err)
	_, err = btx.WriteTo(f)
	return err
}
