// Package schema makes the tables of package postgres and keeps them up to date: it applies
// migrations, writes them as a script, says which ones a database has, and compares the tables
// of a database with the tables of the migrations.
//
// A program works with tables of its own version, of the version before and of the version
// after, so that nodes can be replaced one by one. tables.sql has the tables of the first version, and functions.sql the
// functions, triggers and views of this program.
package schema

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/task"
)

// Default is the name of the schema that has the tables if no other is given.
const Default = "taskengine"

// CoordinationTables returns the names of the tables of the schema by which nodes coordinate.
func CoordinationTables() []string { return coordination.Tables() }

// ErrMismatch is wrapped by errors that say that the tables are missing, or of a version that
// this program does not work with.
var ErrMismatch = errors.New("the schema of the database does not fit")

// ErrNoTables is wrapped by errors that say that the tables are missing. It is an [ErrMismatch].
var ErrNoTables = fmt.Errorf("%w: there are no tables", ErrMismatch)

// Name returns name, or [Default] if it is empty. The error says that the name is too long for
// PostgreSQL.
func Name(name string) (string, error) {
	if name == "" {
		name = Default
	}
	if len(name) > 63 {
		return "", fmt.Errorf("postgres: the name of the schema has %d bytes, of 63 allowed", len(name))
	}
	return name, nil
}

// The columns of the tables task, ended and packed. Package postgres reads the columns of a task in this order: narrow, and
// heavy. The others serve to find tasks.
const (
	narrow = `id, owner, version, seq, created_at, ready_at, next_event_at, expires_at, started_at, updated_at, ` +
		`attempt, crashes, shard, turn, state, priority, boost, inherits, tombstone, type, grp, key, ordering_key, node, headers, progress, error, history, awaits, woken_by, parent, search`
	heavy   = `signals, children, checkpoint, payload, result`
	columns = narrow + ", " + heavy + ", due_at, kind, kind_at, due_state, queued"
)

// columnsOf returns a list of columns of a table or a record that has this name in a statement.
func columnsOf(list, name string) string {
	return name + "." + strings.ReplaceAll(list, ", ", ", "+name+".")
}

// holds is the condition that the row k of the table key is that of a row with this name.
func holds(name string) string {
	return strings.ReplaceAll("k.type = t.type and k.ordering_key = coalesce(t.ordering_key, '') and k.key = t.key and k.id = t.id", "t.", name+".")
}

// Fill returns a function that replaces placeholders in SQL: {task} and the other tables by
// their names in a schema, {schema} by its name and {schema_literal} by its name as a string,
// {none} by the zero time as a column has it, {unread} by the search values of a row whose values are not known, {shards} by the number of shards, {channel} by the
// channel of notifications, {slot} by the name of the partition of ended that a row of tally is of, and {slot_named} by the same of a row c of pg_class.
// {narrow} is the columns of a task but {heavy}: its signals, children, checkpoint, payload and result. {columns} is all columns of its row.
// {narrow:t}, {heavy:t} and {columns:t} are the same of the table alias t in the statement: gone, h, page, r, t or was. {holds:t}
// is true for the row k of the table key if it is that of t.
func Fill(name string) func(sql string) string {
	quoted := pgx.Identifier{name}.Sanitize()
	pairs := []string{
		"{schema}", quoted, "{schema_literal}", literal(quoted), "{none}", fmt.Sprint(time.Time{}.UnixMicro()),
		"{unread}", fmt.Sprintf("'{%d}'::bigint[]", math.MinInt64), "{channel}", literal(coordination.Channel(name)), "{shards}", fmt.Sprint(task.ShardCount),
		"{narrow}", narrow, "{heavy}", heavy, "{columns}", columns, "{slot}", ended.PartitionName(), "{slot_named}", ended.PartitionBase(),
	}
	for _, t := range []string{"c", "gone", "h", "page", "r", "t", "was"} {
		pairs = append(pairs, "{narrow:"+t+"}", columnsOf(narrow, t), "{heavy:"+t+"}", columnsOf(heavy, t), "{columns:"+t+"}", columnsOf(columns, t), "{holds:"+t+"}", holds(t))
	}
	for _, table := range []string{"task", "task_seq", "ended", "key", "engine_setting", "migration", "type_policy", "task_log", "home", "packed", "tally", "tally_now", "session", "member"} {
		pairs = append(pairs, "{"+table+"}", pgx.Identifier{name, table}.Sanitize())
	}
	return strings.NewReplacer(pairs...).Replace
}

// literal returns s as a constant of SQL.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Lock returns the key of the advisory lock that serializes an operation on a schema, such as
// "migrate". Every program that uses the schema must derive the same key.
func Lock(operation, name string) int64 {
	h := fnv.New64a()
	h.Write([]byte("taskengine " + operation + " " + name))
	return int64(h.Sum64())
}

// IsMissing reports whether an error of the driver says that a table or the schema does not
// exist.
func IsMissing(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P01" || e.Code == "3F000")
}

// Querier is a connection, a pool or a transaction of pgx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Version returns the version of the tables, 0 if there are none. The error has a remedy,
// if one is known.
func Version(ctx context.Context, q Querier, name string) (int, error) {
	version, err := readVersion(ctx, q, name)
	if err != nil {
		return 0, advised(err, configOf(q), toRead(name))
	}
	return version, nil
}

func readVersion(ctx context.Context, q Querier, name string) (version int, err error) {
	var first *string
	err = q.QueryRow(ctx, Fill(name)("select coalesce(max(version), 0), min(name) filter (where version = 1) from {migration}")).Scan(&version, &first)
	switch {
	case IsMissing(err):
		return 0, nil
	case err == nil && first != nil && *first != firstName:
		return 0, errUnreleased(name)
	}
	return version, err
}

// errUnreleased returns the error for tables that were made before the first release.
func errUnreleased(name string) error {
	return fmt.Errorf("%w: a development build has made the tables in the schema %s, and no release reads them; choose another schema or database", ErrMismatch, name)
}

// checkEncoding returns an error if the database cannot hold every text: its encoding is not UTF8.
func checkEncoding(ctx context.Context, q Querier) error {
	var encoding string
	if err := q.QueryRow(ctx, "select current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s and needs UTF8: make another one with `create database NAME encoding 'UTF8' template template0`", encoding)
	}
	return nil
}

// Check returns the version of the tables. The error wraps [ErrMismatch] if this program does
// not work with them.
func Check(ctx context.Context, q Querier, name string) (int, error) {
	if err := checkEncoding(ctx, q); err != nil {
		return 0, fmt.Errorf("postgres: %w", advised(err, configOf(q), toRead(name)))
	}
	at, err := Version(ctx, q, name)
	switch {
	case errors.Is(err, ErrMismatch):
		return 0, fmt.Errorf("postgres: %w", err)
	case err != nil:
		return 0, fmt.Errorf("postgres: look at the schema %s: %w", name, err)
	}
	return at, own(name).check(at, name)
}

// check returns an error that wraps [ErrMismatch] if a program does not work with tables of a version: it works with its
// own, and with the versions before and after it.
func (r release) check(at int, name string) error {
	want := len(r.migrations)
	switch {
	case at == 0:
		return fmt.Errorf("postgres: %w in the schema %s of this database; run `taskengine migrate apply`", ErrNoTables, name)
	case at < want-1:
		return fmt.Errorf("postgres: %w: it is at version %d, and this program needs %d or %d; run `taskengine migrate apply`", ErrMismatch, at, want-1, want)
	}
	if err := r.checkNew(at); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// CheckVersion returns an error that wraps [ErrMismatch] if tables at a version are too new for
// this program: newer by more than one version.
func CheckVersion(at int) error { return own(Default).checkNew(at) }

// checkNew is [CheckVersion] for the program of a release.
func (r release) checkNew(at int) error {
	if known := len(r.migrations); at > known+1 {
		return fmt.Errorf("%w: it is at version %d, and this program works with %d and the one after it; run a newer version of the program", ErrMismatch, at, known)
	}
	return nil
}
