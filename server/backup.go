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

// StoreHeader is the header in which the answer with a backup names the store.
const StoreHeader = "Taskengine-Store"

// backupEnd is the name of the last entry of a backup that is whole.
const backupEnd = "complete"

// ErrCutShort says that a backup is not whole.
var ErrCutShort = errors.New("the backup was cut short")

// Backups hand out backups of a node's store. The zero value has no store yet.
type Backups struct {
	store atomic.Pointer[offered] // nil while the node is starting
	Log   *slog.Logger            // of what goes wrong with a backup; nil is nobody
}

// offered is a store that can be backed up, or not.
type offered struct {
	name   string
	backup storage.Backuper // nil if it cannot
}

// Offer says which store there is, and what it is called.
func (b *Backups) Offer(name string, s storage.Store) {
	backup, _ := s.(storage.Backuper)
	b.store.Store(&offered{name, backup})
}

// serve answers with the files of the store. An answer that has begun can only be broken
// off when something goes wrong.
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
	// It takes as long as it takes; and a listener without deadlines needs none.
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

// ReadBackup reads what a node answers and hands over the files. An error wraps
// [ErrCutShort] if there should be more of them.
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
