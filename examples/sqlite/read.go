package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/taskengine/taskengine/storage/records"
)

// view is a transaction that only reads.
type view struct {
	*conn
	backend *backend
}

// Close implements [records.View].
func (v *view) Close() error {
	if err := v.Exec("COMMIT"); err != nil {
		return errors.Join(err, v.close())
	}
	v.backend.giveBack(v.conn)
	return nil
}

// Get implements [records.Reader].
func (c *conn) Get(key []byte) (value []byte, found bool, err error) {
	s, err := c.prepared(&c.get, "SELECT value FROM record WHERE key = ?")
	if err != nil {
		return nil, false, err
	}
	if err := s.BindBlob(1, key); err != nil {
		return nil, false, err
	}
	if found = s.Step(); found {
		c.value = s.ColumnBlob(0, c.value[:0])
	}
	return c.value, found, errors.Join(s.Err(), s.Reset())
}

// Scan implements [records.Reader].
func (c *conn) Scan(lower, upper []byte, backward bool) (records.Cursor, error) {
	sql := "SELECT key, value FROM record WHERE key >= ?"
	if upper != nil {
		sql += " AND key < ?"
	}
	sql += " ORDER BY key"
	if backward {
		sql += " DESC"
	}
	s, err := c.statement(sql)
	if err != nil {
		return nil, err
	}
	if lower == nil {
		lower = []byte{}
	}
	err = s.BindBlob(1, lower)
	if upper != nil {
		err = errors.Join(err, s.BindBlob(2, upper))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &cursor{conn: c, sql: sql, statement: s}, nil
}

// statement returns a statement that no cursor uses.
func (c *conn) statement(sql string) (*sqlite3.Stmt, error) {
	if free := c.scans[sql]; len(free) > 0 {
		c.scans[sql] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	s, _, err := c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	return s, err
}

// cursor is a [records.Cursor]: a statement in progress.
type cursor struct {
	conn      *conn
	sql       string
	statement *sqlite3.Stmt
	key       []byte
	value     []byte
}

func (c *cursor) Next() bool {
	if !c.statement.Step() {
		return false
	}
	c.key = c.statement.ColumnBlob(0, c.key[:0])
	return true
}

func (c *cursor) Key() []byte { return c.key }

func (c *cursor) Value() ([]byte, error) {
	c.value = c.statement.ColumnBlob(1, c.value[:0])
	return c.value, nil
}

func (c *cursor) Close() error {
	if err := errors.Join(c.statement.Err(), c.statement.Reset()); err != nil {
		return errors.Join(err, c.statement.Close())
	}
	c.conn.scans[c.sql] = append(c.conn.scans[c.sql], c.statement)
	return nil
}
