// Package pebble keeps tasks in a folder of this machine, in a log-structured merge
// tree (github.com/cockroachdb/pebble). It is the fast one of the embedded stores:
// concurrent updates share one sync of the write-ahead log.
//
// A call that changes something returns once the change is on disk. A call that reads
// may return a change that was applied and is not yet synced. A later change is durable no
// earlier than that one.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// ErrDamaged means that the files are not as this package wrote them.
var ErrDamaged = kv.ErrDamaged

// Options configure [Open]. The zero value suits a node that shares its machine with other
// programs: the store then uses less than 300 MB of memory.
type Options struct {
	// FS is the file system of the folder; nil is that of the machine.
	FS vfs.FS
	// CacheSize is how many bytes of the files are cached in memory; zero is 64 MB.
	CacheSize int64
	// MemTableSize is how many bytes of new data are collected before they are sorted
	// into a file; zero is DefaultMemTableSize (32 MB). Up to four times that may be in memory.
	MemTableSize uint64
	// MaxOpenFiles is the maximum number of sorted files that are kept open; zero is 500. The
	// store opens up to about 20 other files.
	MaxOpenFiles int
	// ReadOnly opens a store that must exist, and changes nothing in its folder: every change
	// fails. The folder is locked nevertheless, unless no store was opened there before, as in a
	// backup. No store may be opened there for changes in the meantime.
	ReadOnly bool
	// Salvage opens a store with damaged logs, and reads them up to the damage. The store
	// then lacks changes that were acknowledged, which is logged. Salvage has no effect without
	// ReadOnly.
	Salvage bool
	// Log receives the reports of the store besides errors; nil discards them.
	Log *slog.Logger
}

const (
	defaultCacheSize    = 64 << 20
	defaultMaxOpenFiles = 500
)

// formatLibrary is the format of the files that the library writes. It is pinned here, so that
// an update of the library does not change it: there is no way back to an older format.
const formatLibrary = pebble.FormatWALSyncChunks

// lockFile is the file in the folder that the library locks.
const lockFile = "LOCK"

// Store is a [storage.Store] in a folder. It implements [storage.Inspector],
// [storage.KeyInspector], [storage.KeyFinder], [storage.NoSyncer], [storage.Settings] and [storage.Exporter] too.
type Store struct {
	kv.Calls

	dir  string
	here kv.File // the file that locks dir; zero if dir is not on the machine's file system, or is only read
	fs   *failstop
	db   *pebble.DB
	kv   *kv.DB
	log  *slog.Logger

	readOnly bool
	backup   sync.Mutex // held while a backup is made

	// life is held shared by every call under way, and exclusively by the end of the store.
	life    sync.RWMutex
	closed  bool // guarded by life: Close was called
	stopped bool // guarded by life: db is closed

	// write is held by the transaction in progress while it reads, builds its batch and
	// applies it, but not while it waits for the sync.
	write   sync.Mutex
	applied uint64 // guarded by write: the number of batches applied

	synced atomic.Uint64 // how many of the applied batches are known to be durable

	background sync.WaitGroup // the goroutine that closes a store that has failed
}

var (
	_ storage.Store        = (*Store)(nil)
	_ storage.Inspector    = (*Store)(nil)
	_ storage.KeyInspector = (*Store)(nil)
	_ storage.KeyFinder    = (*Store)(nil)
	_ storage.NoSyncer     = (*Store)(nil)
	_ storage.Settings     = (*Store)(nil)
	_ storage.LogKeeper    = (*Store)(nil)
	_ storage.Exporter     = (*Store)(nil)
)

// Open opens the store in the folder dir. It creates the folder, but not the folder above.
// The error wraps [storage.ErrLocked] if this or another process has the folder open already,
// and [storage.ErrFormat] if a newer version has written it.
func Open(dir string, opts Options) (*Store, error) {
	s := &Store{dir: dir, log: opts.Log, readOnly: opts.ReadOnly}
	s.Calls = kv.NewCalls(s.Update, s.view)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("pebble: open %s: %w", dir, err)
		}
		s.dir = abs
		if _, err := opts.FS.Stat(filepath.Dir(abs)); err != nil {
			return nil, fmt.Errorf("pebble: open %s: the folder above it must exist: %w", dir, err)
		}
	}
	s.fs = newFailstop(opts.FS, s.broke)
	s.fs.reads = opts.ReadOnly
	if opts.FS == vfs.Default && !opts.ReadOnly {
		s.fs.tails = new(tails)
	}
	s.fs.aside = opts.FS.PathJoin(s.dir, backupFolder)
	s.life.Lock()
	err := s.open(opts)
	s.life.Unlock()
	if cause := s.fs.failure(); cause != nil {
		err = cause // says more than the error of the library
	}
	if err != nil {
		_ = s.Close() // err is the cause
		return nil, fmt.Errorf("pebble: open %s: %w", dir, errors.Join(err, s.fs.releaseLocks()))
	}
	return s, nil
}

// open opens the library on the file system s.fs. The caller holds life.
func (s *Store) open(opts Options) (err error) {
	if err := checkLibraryFormat(s.fs, s.dir); err != nil {
		return err
	}
	if err := checkManifest(s.fs, s.dir); err != nil {
		return err
	}
	if err := s.openLogs(opts); err != nil {
		return err
	}
	if !s.readOnly && opts.FS == vfs.Default {
		if s.here, err = kv.FileAt(filepath.Join(s.dir, lockFile)); err != nil {
			return err
		}
	}
	if !s.readOnly { // only now: the library holds the lock, so no other process makes a backup here
		if err := s.fs.FS.RemoveAll(s.fs.aside); err != nil {
			return fmt.Errorf("remove the remains of a backup: %w", err)
		}
	}
	return s.prepare()
}

// openLogs opens the library, and examines the logs that the library reads at that time.
func (s *Store) openLogs(opts Options) (err error) {
	logs := &replay{salvage: opts.Salvage && s.readOnly}
	s.fs.replay.Store(logs)
	defer s.fs.replay.Store(nil)
	s.db, err = openLibrary(s.dir, s.options(opts))
	if err == nil && logs.damage != nil {
		s.log.Warn("pebble: the store is damaged and was read as far as possible: later changes are missing", "dir", s.dir, "error", logs.damage)
	}
	if pebble.IsCorruptionError(err) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; restore a backup, or copy the readable part by `taskengine copy --salvage`", err)
	}
	return err
}

// openLibrary returns a panic as an error: the library panics on some failures of the disk.
func openLibrary(dir string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("the library panicked: %v", r)
		}
	}()
	return pebble.Open(dir, opts)
}

// Format returns the format of the store, and the one that this version writes. They differ only if an earlier version has
// written the store, and it was opened with ReadOnly.
func (s *Store) Format() (is, own uint64) { return s.kv.Format() }

// prepare reads the state that all transactions share. It writes the format into an empty store.
func (s *Store) prepare() error {
	w := &writer{db: s.db, batch: s.db.NewBatch()}
	defer w.close(false)
	var err error
	if s.kv, err = kv.Open("pebble", w, s.readOnly); err != nil || s.readOnly {
		return err
	}
	return w.batch.Commit(pebble.Sync)
}

// checkLibraryFormat refuses files that a newer version of the library has written.
func checkLibraryFormat(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err != nil {
		return nil // a new store, or an error that Open reports
	}
	value, err := atomicfs.ReadMarker(fs, dir, "format-version")
	if err != nil {
		return fmt.Errorf("read the format: %w", err)
	}
	format, err := strconv.ParseUint(value, 10, 64)
	if err == nil && format > uint64(pebble.FormatNewest) {
		return fmt.Errorf("its files have format %d, this program reads up to %d, use the program that wrote it or a newer one: %w",
			format, pebble.FormatNewest, storage.ErrFormat)
	}
	return nil
}

// checkManifest refuses a folder that has tables or logs and no manifest. The library would make
// a new store there, and remove the files that it does not know.
func checkManifest(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err != nil {
		return nil // a new store, or an error that Open reports
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, isLog := logNumber(name); !isLog && !strings.HasSuffix(name, ".sst") {
			continue
		}
		d, err := pebble.Peek(dir, fs) // after the list: the library writes the manifest before other files
		if err == nil && !d.Exists {
			err = fmt.Errorf("there is %s but no manifest, which says which files belong to the store: %w; restore a backup", name, ErrDamaged)
		}
		return err
	}
	return nil
}

func (s *Store) options(opts Options) *pebble.Options {
	if opts.CacheSize == 0 {
		opts.CacheSize = defaultCacheSize
	}
	if opts.MemTableSize == 0 {
		opts.MemTableSize = DefaultMemTableSize
	}
	if opts.MaxOpenFiles == 0 {
		opts.MaxOpenFiles = defaultMaxOpenFiles
	}
	o := &pebble.Options{
		FS:                          s.fs,
		ReadOnly:                    opts.ReadOnly,
		FormatMajorVersion:          formatLibrary,
		CacheSize:                   opts.CacheSize,
		MemTableSize:                opts.MemTableSize,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       32,
		LBaseMaxBytes:               4 * int64(opts.MemTableSize),
		MaxOpenFiles:                opts.MaxOpenFiles,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      logger{s},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.say(slog.LevelWarn, "pebble: background work failed", "dir", s.dir, "error", err) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.fs.stop(fmt.Errorf("%s is damaged: %w", info.Path, info.Details))
			},
		},
	}
	o.TargetFileSizes[0] = 8 << 20
	o.Experimental.CompactionScheduler = new(compactions)
	o.Experimental.TombstoneDenseCompactionThreshold = -1
	// Files that end where a table ends let most compactions move files without rewriting them:
	// new rows come after old ones within each table, but not across tables.
	o.Experimental.SpanPolicyFunc = func(start []byte) (pebble.SpanPolicy, []byte, error) {
		return pebble.SpanPolicy{}, kv.TableEnd(start), nil
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	return o
}

// logger forwards the log of the library. Fatalf, which the library calls to end the process,
// stops the store instead: all writing ends before Fatalf returns, so nothing that the library
// does after it reaches the disk.
type logger struct{ s *Store }

func (l logger) Infof(format string, args ...any) {
	l.s.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Errorf(format string, args ...any) {
	l.s.say(slog.LevelError, "pebble: "+fmt.Sprintf(format, args...))
}

func (l logger) Fatalf(format string, args ...any) {
	l.s.fs.stop(fmt.Errorf(format, args...))
}

// say logs a message of the library. After a failure the library finds files that differ from its
// writes, which says nothing about the disk; such messages are logged for debugging only.
func (s *Store) say(level slog.Level, text string, args ...any) {
	if s.fs.failure() != nil {
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, text, args...)
}

// broke is called once, when writing has ended after a failure. It closes the library in the
// background, which would otherwise repeat failed work over and over.
func (s *Store) broke(cause error) {
	s.log.Error("pebble: the store has stopped", "dir", s.dir, "error", kv.Broken(cause))
	s.background.Go(func() {
		s.life.Lock()
		defer s.life.Unlock()
		_ = s.stop() // the store has failed already, and every call says so
	})
}

// stop closes the library. The caller holds life.
func (s *Store) stop() error {
	if s.stopped || s.db == nil {
		return nil
	}
	s.stopped = true
	if s.fs.failure() == nil && s.kv != nil && !s.readOnly && s.applied > 0 {
		if err := s.putLastMarks(); err != nil {
			s.fs.stop(err)
		}
	}
	return s.db.Close()
}

// Close implements [storage.Store]. An error means that the changes of a Relax may be lost if no
// Update followed it.
func (s *Store) Close() error {
	s.life.Lock()
	first := !s.closed
	s.closed = true
	err := s.stop()
	s.life.Unlock()
	s.background.Wait()
	if broken := s.fs.err(); broken != nil {
		err = broken
	}
	if err == nil || !first {
		return nil
	}
	return fmt.Errorf("pebble: close: %w", err)
}

// enter begins a call; leave ends it if enter returned nil.
func (s *Store) enter(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pebble: %s: %w", call, err)
	}
	s.life.RLock()
	err := s.fs.err()
	if s.closed {
		err = storage.ErrClosed
	}
	if err != nil {
		s.life.RUnlock()
		return fmt.Errorf("pebble: %s: %w", call, err)
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// view runs a reading call on a snapshot.
func (s *Store) view(ctx context.Context, call string, fn func(*kv.View) error) error {
	if err := s.enter(ctx, call); err != nil {
		return err
	}
	defer s.leave()
	r := &reader{from: s.db.NewSnapshot()}
	defer r.close()
	v := s.kv.Read(r)
	return fn(&v)
}
