package server

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/storage"
)

// StoreHeader is the header of the response with a backup that names the store.
const StoreHeader = "Taskengine-Store"

// backupEnd is the name of the last entry of a complete backup.
const backupEnd = "complete"

// ErrCutShort is the error of a backup that is not complete.
var ErrCutShort = errors.New("the backup was cut short")

// Backups serves backups of the store of a node. The zero value has no store yet.
type Backups struct {
	store atomic.Pointer[backupSource] // nil while the node is starting
	Log   *slog.Logger                 // for errors of backups; nil for none
}

// backupSource is the store of a node.
type backupSource struct {
	name   string
	backup storage.Backuper // nil if the store has no backups
}

// Offer sets the store and its name.
func (b *Backups) Offer(name string, s storage.Store) {
	backup, _ := s.(storage.Backuper)
	b.store.Store(&backupSource{name, backup})
}

// serve sends the files of the store. After an error it aborts the response: its status was sent before.
func (b *Backups) serve(w http.ResponseWriter, r *http.Request) {
	s := b.store.Load()
	switch {
	case s == nil:
		http.Error(w, "the node is starting", http.StatusServiceUnavailable)
		return
	case s.backup == nil:
		http.Error(w, "the store of this node is not in files, and cannot be backed up by it", http.StatusNotImplemented)
		return
	}
	// A backup has no time limit. Errors mean that there are no deadlines.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	w.Header().Set(StoreHeader, s.name)
	w.Header().Set("Content-Type", "application/x-tar")
	if err := writeBackup(r.Context(), w, s.backup); err != nil {
		if b.Log != nil {
			b.Log.Warn("a backup was broken off", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

func writeBackup(ctx context.Context, w io.Writer, from storage.Backuper) error {
	archive := tar.NewWriter(w)
	err := from.Backup(ctx, func(name string, size int64, content io.Reader) error {
		if err := archive.WriteHeader(&tar.Header{Name: "store/" + name, Mode: 0o600, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(archive, content)
		return err
	})
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: backupEnd, Mode: 0o600}); err != nil {
		return err
	}
	return archive.Close()
}

// ReadBackup reads the response of a node and calls file for each file of the backup. The error wraps [ErrCutShort] if
// the backup is not complete.
func ReadBackup(r io.Reader, file func(name string, size int64, content io.Reader) error) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return ErrCutShort
		case err != nil:
			return fmt.Errorf("%w: %w", ErrCutShort, err)
		case h.Name == backupEnd:
			return nil
		}
		name, ok := strings.CutPrefix(h.Name, "store/")
		if !ok || name == "" || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
			return fmt.Errorf("the backup has a file %q, which is not part of a store", h.Name)
		}
		if err := file(name, h.Size, archive); err != nil {
			return err
		}
	}
}
