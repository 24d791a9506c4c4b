package sqlite

// transaction is the transaction that may write. It is in progress on the connection for it.
type transaction struct{ *conn }

// Put implements [records.Transaction].
func (t *transaction) Put(key, value []byte) error {
	s, err := t.prepared(&t.put, "INSERT INTO record (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
	if err != nil {
		return err
	}
	return run(s, key, value)
}

// Delete implements [records.Transaction].
func (t *transaction) Delete(key []byte) error {
	s, err := t.prepared(&t.remove, "DELETE FROM record WHERE key = ?")
	if err != nil {
		return err
	}
	return run(s, key)
}

// Commit implements [records.Transaction].
func (t *transaction) Commit() error { return t.Exec("COMMIT") }

// Rollback implements [records.Transaction]. After some errors SQLite has rolled back by itself.
func (t *transaction) Rollback() error {
	if t.GetAutocommit() {
		return nil
	}
	return t.Exec("ROLLBACK")
}
