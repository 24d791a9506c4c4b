// Package sqlite keeps tasks in a file of SQLite. It is an example of a store outside the module of taskengine: a
// [records.Backend], of which package records makes a [storage.Store]. One table has all keys:
//
//	CREATE TABLE record (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID
//
//	sqlite.go  the file, the connections to it, and the lock that keeps other processes out
//	read.go    views, and positions in a scan
//	write.go   the transaction
//
// The file is in the mode WAL with full synchronization: a commit is durable, and views neither wait for it nor delay it.
// Other tables of the file are the program's, see [Conn].
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/records"
)

// Open opens the store in a file, which it creates if it is not there. The folder must exist.
func Open(ctx context.Context, path string) (*records.Store, error) {
	b, err := newBackend(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	return records.Open(ctx, "sqlite", b)
}

// Conn returns the connection of the transaction that [records.Store.Update] passes to its function, for business data in other
// tables that must change together with the tasks. The caller neither commits nor rolls back.
func Conn(tx storage.Tx) *sqlite3.Conn {
	return tx.(*records.Tx).Backend().(*transaction).conn.Conn
}

// backend is a file of SQLite.
type backend struct {
	path   string
	lock   *sqlite3.Conn // has a transaction that no other connection can have beside it
	writer *conn         // of the transaction in progress

	mu   sync.Mutex
	idle []*conn // guarded by mu: connections that have no view
}

var _ records.Backend = (*backend)(nil)

func newBackend(path string) (b *backend, err error) {
	b = &backend{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := b.takeLock(); err != nil {
		return b, err
	}
	if b.writer, err = b.connect(); err != nil {
		return b, err
	}
	err = b.writer.Exec(`
		PRAGMA journal_mode = WAL;
		CREATE TABLE IF NOT EXISTS record (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID`)
	if err != nil {
		return b, err
	}
	return b, syncFolder(filepath.Dir(path))
}

// takeLock takes the lock of the file, which ends with the process: locks within the file are for one transaction each.
func (b *backend) takeLock() (err error) {
	if b.lock, err = sqlite3.Open(b.path + "-lock"); err != nil {
		return err
	}
	err = b.lock.Exec("BEGIN EXCLUSIVE")
	if errors.Is(err, sqlite3.BUSY) {
		return fmt.Errorf("the file is held, stop the other process or give this one a file of its own: %w", storage.ErrLocked)
	}
	return err
}

// syncFolder makes the names of the files in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Begin implements [records.Backend].
func (b *backend) Begin(context.Context) (records.Transaction, error) {
	if err := b.writer.Exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return &transaction{b.writer}, nil
}

// View implements [records.Backend].
func (b *backend) View(context.Context) (records.View, error) {
	c, err := b.take()
	if err != nil {
		return nil, err
	}
	// A transaction sees all commits before its first statement.
	if err := c.Exec("BEGIN; SELECT 1 FROM record LIMIT 1"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return &view{c, b}, nil
}

// take returns a connection that no one else uses.
func (b *backend) take() (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		c := b.idle[n-1]
		b.idle = b.idle[:n-1]
		return c, nil
	}
	return b.connect()
}

func (b *backend) giveBack(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, c)
}

// Close implements [records.Backend]. The lock is the last to go.
func (b *backend) Close() error {
	var errs []error
	for _, c := range append(b.idle, b.writer) {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}

// conn is a connection with its statements. One goroutine at a time uses it.
type conn struct {
	*sqlite3.Conn
	get, put, remove *sqlite3.Stmt
	value            []byte                     // of the latest get
	scans            map[string][]*sqlite3.Stmt // by their SQL, without a cursor
}

func (b *backend) connect() (*conn, error) {
	raw, err := sqlite3.Open(b.path)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, scans: map[string][]*sqlite3.Stmt{}}
	if err := c.Exec("PRAGMA synchronous = FULL"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepared returns the statement at, which it prepares for the first call.
func (c *conn) prepared(at **sqlite3.Stmt, sql string) (_ *sqlite3.Stmt, err error) {
	if *at == nil {
		*at, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	}
	return *at, err
}

// run binds the arguments of a statement without results, and runs it.
func run(s *sqlite3.Stmt, arguments ...[]byte) error {
	for i, a := range arguments {
		if a == nil {
			a = []byte{}
		}
		if err := s.BindBlob(i+1, a); err != nil {
			return err
		}
	}
	return errors.Join(s.Exec(), s.ClearBindings())
}

func (c *conn) close() error {
	var errs []error
	all := []*sqlite3.Stmt{c.get, c.put, c.remove}
	for _, scans := range c.scans {
		all = append(all, scans...)
	}
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Conn.Close())...)
}
