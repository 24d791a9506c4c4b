package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver that goqite and backlite are documented and tested with
)

const (
	sqliteFull   = "every insert and every acknowledgement is a transaction in the WAL, and fsynced (synchronous=FULL)"
	sqliteNormal = "none: go-sqlite3's default in WAL mode is synchronous=NORMAL, which fsyncs at checkpoints only; a crash of the machine loses what came since"
)

// sqliteVersion asks the library that is linked in.
func sqliteVersion(ctx context.Context, db *sql.DB) (string, error) {
	var v string
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&v); err != nil {
		return "", fmt.Errorf("ask SQLite for its version: %w", err)
	}
	return "SQLite " + v, nil
}

// openSQLite opens a new database with the parameters of a data source name and at most
// so many connections; 0 is without limit.
func openSQLite(dir, parameters string, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "queue.db")+"?"+parameters)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(max(2, connections))
	return db, nil
}
