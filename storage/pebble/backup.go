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

// backupFolder is where, within the folder of the store, a backup is gathered. What a
// process that was killed has left there goes when the store is opened.
const backupFolder = "taskengine-backup-partial"

// Backup implements [storage.Backuper]. It gathers links to the files, which do not change,
// and copies of the logs; then the store goes on as it likes, and may be closed.
func (s *Store) Backup(ctx context.Context, file func(string, int64, io.Reader) error) error {
	s.backup.Lock()
	defer s.backup.Unlock()
	fs, dir := s.fs.FS, s.fs.aside
	defer func() { _ = fs.RemoveAll(dir) }() // the next one tries again
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

// gather makes a folder with all the files of one moment.
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
