// Package bolt keeps tasks in one file of this machine, in a B+tree (go.etcd.io/bbolt).
// It is the simple one of the embedded stores: one writer, one sync per update, and a
// file that other tools can read. Business data may be kept in the same file and change in
// the same transaction: see [Tx.Bolt]. Every value of a task ends with a checksum, so that
// changed bytes are noticed when they are read: see [ErrDamaged].
package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// Options configure [Open]. The zero value suits most programs.
type Options struct {
	// LockWait is how long to wait for another process to unlock the file; zero does not
	// wait.
	LockWait time.Duration
	// ReadOnly opens a file that must exist, and changes nothing in it: every change
	// fails. Other processes may read the file at the same time, and none can change it.
	ReadOnly bool
	// OpenFile opens the file; nil is [os.OpenFile]. Tests use it to inject failures.
	OpenFile func(name string, flag int, mode os.FileMode) (*os.File, error)
}

// bucketName is the name of the only bucket that belongs to the store.
var bucketName = []byte("taskengine")

// shortestWait makes bbolt try the lock once: with zero it would wait forever.
const shortestWait = time.Nanosecond

// Store is a [storage.Store] in a file. It implements [storage.Inspector],
// [storage.KeyInspector], [storage.KeyFinder], [storage.Settings] and [storage.Exporter] too.
type Store struct {
	kv.Calls

	path string
	db   *bbolt.DB
	kv   *kv.DB
	file *os.File // the file of db
	here kv.File  // the path of the file; zero if the file is only read

	// write is held by the transaction in progress until kv knows how it ended: bbolt
	// lets the next one begin a little earlier.
	write sync.Mutex

	backup sync.Mutex // held while a backup is made

	// life is held shared by every call under way, and exclusively by Close.
	life   sync.RWMutex
	closed bool // guarded by life

	newest atomic.Int64          // number of the newest transaction that was committed; 0 before one is
	broken atomic.Pointer[error] // the error of every further call; nil unless the store has failed
	stuck  atomic.Bool           // bbolt has panicked while it held its locks
}

var (
	_ storage.Store        = (*Store)(nil)
	_ storage.Inspector    = (*Store)(nil)
	_ storage.KeyInspector = (*Store)(nil)
	_ storage.KeyFinder    = (*Store)(nil)
	_ storage.Settings     = (*Store)(nil)
	_ storage.LogKeeper    = (*Store)(nil)
	_ storage.Exporter     = (*Store)(nil)
)

// Open opens the store in the file path, and creates the file if it is missing. The error
// wraps [storage.ErrLocked] if this or another process has the file open already,
// [storage.ErrFormat] if a newer version has written it, and [ErrDamaged] if Open finds
// damage. Damage of other parts of the file is found when they are read.
func Open(path string, opts Options) (*Store, error) {
	s := &Store{path: path}
	s.Calls = kv.NewCalls(s.Update, s.view)
	if err := s.open(path, opts); err != nil {
		return nil, fmt.Errorf("bolt: open %s: %w", path, err)
	}
	return s, nil
}

// Format returns the format of the store, and the one that this version writes. They differ only if an earlier version has
// written the store, and it was opened with ReadOnly.
func (s *Store) Format() (is, own uint64) { return s.kv.Format() }

func (s *Store) open(path string, opts Options) error {
	_, err := os.Stat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if opts.ReadOnly && err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("the folder above it must exist: %w", err)
	}
	defer faultsPanic()()
	err = s.openFile(path, opts)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("the file is held, stop the other process or give this one a file of its own: %w", storage.ErrLocked)
	case errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", storage.ErrFormat, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum):
		return damaged(err)
	case err != nil:
		return err
	}
	prepare := s.prepare
	if opts.ReadOnly {
		prepare = s.look
	}
	if err := prepare(path, fresh); err != nil {
		return errors.Join(err, s.closeFile())
	}
	if !opts.ReadOnly {
		if s.here, err = kv.FileAt(path); err != nil {
			return errors.Join(err, s.closeFile())
		}
		_ = os.Remove(path + backupSuffix) // left by a killed process; if it remains, the next backup overwrites it
	}
	return nil
}

// openFile opens the file with bbolt.
func (s *Store) openFile(path string, opts Options) (err error) {
	defer func() {
		if errors.Is(err, ErrDamaged) && s.file != nil {
			_ = s.letGo() // fails if bbolt has closed the file
		}
	}()
	defer catch(&err)
	s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         max(opts.LockWait, shortestWait),
		FreelistType:    bbolt.FreelistMapType,
		PreLoadFreelist: true, // so that a reader finds the damage that a writer would find
		ReadOnly:        opts.ReadOnly,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			open := opts.OpenFile
			if open == nil {
				open = os.OpenFile
			}
			f, err := open(name, flag, mode)
			if err != nil {
				return nil, err
			}
			s.file = f
			return f, checkLength(f)
		},
	})
	return err
}

// look is prepare for a file that is opened read-only.
func (s *Store) look(string, bool) (err error) {
	btx, err := s.beginIn(false)
	if err != nil {
		return err
	}
	defer s.end(btx, &err)
	b, err := bucketOf(btx)
	if err == nil && b == nil {
		err = errors.New("there are no tasks in this file")
	}
	if err != nil {
		return err
	}
	return s.share(b, true)
}

// prepare reads the state that all transactions share. It makes the bucket in a new file.
func (s *Store) prepare(path string, fresh bool) (err error) {
	btx, err := s.beginIn(true)
	if err != nil {
		return err
	}
	defer s.end(btx, &err)
	b, err := bucketOf(btx)
	if err == nil && b == nil {
		b, err = newBucket(btx)
	}
	if err != nil {
		return err
	}
	if err := s.share(b, false); err != nil {
		return err
	}
	if err := commit(btx); err != nil || !fresh {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// share reads the state that all transactions share.
func (s *Store) share(b *bbolt.Bucket, readOnly bool) (err error) {
	if err := checkFormat(b); err != nil {
		return err
	}
	s.kv, err = kv.Open("bolt", &adapter{b: b}, readOnly)
	return err
}

// syncFolder makes the name of a new file durable. A sync of the file does not.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.closeFile(); err != nil {
		return fmt.Errorf("bolt: close: %w", err)
	}
	return nil
}

// closeFile closes the file. If bbolt has panicked with its locks held, its Close would block
// forever. closeFile then closes the file without bbolt, so that another process can open it.
func (s *Store) closeFile() error {
	if s.stuck.Load() {
		return s.letGo()
	}
	return s.db.Close()
}

// letGo unlocks and closes the file without bbolt. The memory that bbolt has mapped remains, and
// would keep the file locked.
func (s *Store) letGo() error { return errors.Join(unlock(s.file), s.file.Close()) }

// enter begins a call; leave ends it if enter returned nil.
func (s *Store) enter(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("bolt: %s: %w", call, err)
	}
	s.life.RLock()
	var err error
	if cause := s.broken.Load(); cause != nil {
		err = *cause
	}
	if s.closed {
		err = storage.ErrClosed
	}
	if err != nil {
		s.life.RUnlock()
		return fmt.Errorf("bolt: %s: %w", call, err)
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// view runs a reading call in a transaction of its own.
func (s *Store) view(ctx context.Context, call string, fn func(*kv.View) error) (err error) {
	if err := s.enter(ctx, call); err != nil {
		return err
	}
	defer s.leave()
	defer faultsPanic()()
	btx, b, err := s.begin(false)
	if err != nil {
		return fmt.Errorf("bolt: %s: %w", call, err)
	}
	defer s.end(btx, &err)
	v := s.kv.Read(&adapter{b: b})
	return fn(&v)
}
