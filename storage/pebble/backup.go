package pebble

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
)

var _ storage.Backuper = (*Store)(nil)

// backupFolder is the folder, within that of the store, in which the files of a backup are
// gathered. Open removes the files of a killed process there.
const backupFolder = "taskengine-backup-partial"

// Backup implements [storage.Backuper]. It first gathers links to the tables, which do not change,
// and copies of the logs. From then on the store may be changed and closed.
func (s *Store) Backup(ctx context.Context, file func(string, int64, io.Reader) error) error {
	s.backup.Lock()
	defer s.backup.Unlock()
	fs, dir := s.fs.FS, s.fs.aside
	defer func() { _ = fs.RemoveAll(dir) }() // the next backup removes the rest
	if err := s.gather(ctx, dir); err != nil {
		return fmt.Errorf("pebble: backup: %w", err)
	}
	names, err := fs.List(dir)
	if err != nil {
		return fmt.Errorf("pebble: backup: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("pebble: backup: %w", err)
		}
		if err := handOver(fs, fs.PathJoin(dir, name), name, file); err != nil {
			return err
		}
	}
	return nil
}

// gather makes a folder with the files of the store as they are at one moment.
func (s *Store) gather(ctx context.Context, dir string) error {
	if err := s.enter(ctx, "backup"); err != nil {
		return err
	}
	defer s.leave()
	if err := s.fs.FS.RemoveAll(dir); err != nil {
		return err
	}
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	return s.fs.err()
}

func handOver(fs vfs.FS, path, name string, file func(string, int64, io.Reader) error) error {
	f, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("pebble: backup: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("pebble: backup: %w", err)
	}
	return file(name, info.Size(), f)
}
