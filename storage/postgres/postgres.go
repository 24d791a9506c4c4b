package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Options say how a store is opened. The zero value is a good choice.
type Options struct {
	Schema string       // where the tables are; "" is [schema.Default]
	Log    *slog.Logger // nil for none
}

// pingAfter is how long a connection may be idle and is used without being tried before.
// A node uses one about every second.
const pingAfter = 5 * time.Second

// Store is a [storage.Store] in PostgreSQL. It implements [storage.Inspector],
// [storage.Settings], [storage.Shared], [storage.LiveCounter] and
// [storage.ShardOwner] too. Make one with [Open].
type Store struct {
	pool   *pgxpool.Pool // for what reads, and for the owner of the store
	writer *pgxpool.Pool // for what writes; pool itself, if there is one connection in all
	lent   chan struct{} // holds a token while something reads by a connection of writer
	sql    *statements
	log    *slog.Logger
	slots  slots
	wary   atomic.Int64 // how many batches are careful from now on
	closed atomic.Bool  // set before the pool is closed
	verbs
}

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Inspector = (*Store)(nil)
	_ storage.Settings  = (*Store)(nil)
	_ storage.Shared    = (*Store)(nil)
)

// Open opens the store in the database that url names: a connection string of libpq, with
// the options of pgxpool such as pool_max_conns. That is how many connections there are in all:
// two of them are for what writes (one of 2 or 3), the others for what reads and for [Store.Pool]. The schema must have been made or brought
// up to date by [schema.Migrate] before; else the error wraps [schema.ErrMismatch]. No connection is left
// open when Open fails.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	name, err := schema.Name(o.Schema)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // it names the url, without the password
	}
	config.AfterConnect = teach
	if config.ShouldPing == nil {
		config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	}
	s := &Store{sql: statementsIn(name), log: o.Log, lent: make(chan struct{}, 1)}
	if err := s.connect(ctx, config); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.slots.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.ConnConfig.Copy()) }
	s.slots.schema = name
	s.verbs = verbs{store: s}
	at, err := schema.Check(ctx, s.pool, name)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.slots.early = at >= schema.EarlyEnds
	return s, nil
}

// writers is how many connections are for what writes: the engine has two writers.
const writers = 2

// connect makes the pools. None of them has connections yet, but for what config asks for.
func (s *Store) connect(ctx context.Context, config *pgxpool.Config) (err error) {
	all, writing := config.MaxConns, config.Copy()
	writing.MaxConns, writing.MinConns, writing.MinIdleConns = min(writers, all/2), 0, 0
	if writing.MaxConns > 0 {
		if s.writer, err = pgxpool.NewWithConfig(ctx, writing); err != nil {
			return err
		}
		config.MaxConns -= writing.MaxConns
		config.MinConns, config.MinIdleConns = min(config.MinConns, config.MaxConns), min(config.MinIdleConns, config.MaxConns)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		if s.writer != nil {
			s.writer.Close()
		}
		return err
	}
	if s.writer == nil {
		s.writer = s.pool
	}
	return nil
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.closed.Store(true)
	s.pool.Close()
	s.writer.Close()
	return nil
}

// Pool returns the connections of the store that are not kept for what it writes, for business
// data beside the tasks. They are the store's: the caller does not close them.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Schema returns the name of the schema where the tables are.
func (s *Store) Schema() string { return s.slots.schema }

// failed says what could not be done, and why.
func (s *Store) failed(doing string, err error) error {
	if s.closed.Load() {
		err = storage.ErrClosed
	}
	if home.IsRefused(err) {
		err = storage.ErrElsewhere
	}
	if IsUnavailable(err) {
		return fmt.Errorf("postgres: %s: %w: %w", doing, storage.ErrUnavailable, err)
	}
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" { // it has rolled back
		return fmt.Errorf("postgres: %s: %w: %w", doing, storage.ErrRefused, err)
	}
	return fmt.Errorf("postgres: %s: %w", doing, err)
}

// IsUnavailable reports whether an error of the driver says that the database could not be
// reached, or has lost or refused the connection for reasons that may pass by themselves: it
// starts or stops, has no connection left, or is behind a pool that waits for it.
func IsUnavailable(err error) bool {
	var url *pgconn.ParseConfigError
	if errors.As(err, &url) {
		return false
	}
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code != pgQueryCanceled && slices.Contains([]string{"08", "53", "57"}, said.Code[:2])
	}
	var dial *pgconn.ConnectError
	var network net.Error // deadlines, too
	return errors.As(err, &dial) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

const pgQueryCanceled = "57014"

// isLockTimeout reports whether a transaction was undone because another one had locked for too
// long what it needed.
func isLockTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isTransient reports whether PostgreSQL undid a transaction only because of what others
// did at the same time, which includes to drop a table that was needed: it can simply be
// made again.
func isTransient(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && !home.IsRefused(err) && (e.Code == "40001" || e.Code == "40P01" || e.Code == "23514")
}
