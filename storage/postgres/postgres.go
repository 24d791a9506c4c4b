package postgres

import (
	"cmp"
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

	"github.com/taskengine/taskengine/internal/pgsession"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Options of a store. The zero value is a good choice.
type Options struct {
	Schema string       // where the tables are; "" is [schema.Default]
	Log    *slog.Logger // nil for none

	// Again returns the present connection string. It is called before each connection, which uses the user, password and
	// certificates of the string and of the files that it names; nil: the string does not change.
	Again func() (string, error)

	// Idle is how long the server waits for the next statement of a transaction of the store before it ends the
	// session, and with it the locks of a process that is lost or stopped; 0 is 5 s. Transactions of callers are not
	// concerned. If the connection string sets idle_in_transaction_session_timeout, that holds.
	Idle time.Duration
}

// pingAfter is how long a connection may have been idle to be used without a ping. A node uses one
// about every second.
const pingAfter = 5 * time.Second

// Store is a [storage.Store] in PostgreSQL. It implements [storage.Inspector],
// [storage.KeyInspector], [storage.KeyFinder], [storage.Settings], [storage.Shared], [storage.LiveCounter] and
// [storage.ShardOwner] too. Make one with [Open].
type Store struct {
	pool       *pgxpool.Pool // for reads, and for callers of Pool
	writer     *pgxpool.Pool // for batches of an engine; pool itself if there is one connection in all
	aside      *pgxpool.Pool // for batches that may wait; pool itself if there is one connection in all
	direct     *pgxpool.Pool // for writes that are no batches; pool itself if there is one connection in all
	lent       chan struct{} // holds a token while a read uses a connection of writer
	sql        *statements
	log        *slog.Logger
	partitions partitions
	locks      lockMemory
	identity   identity
	wary       atomic.Int64 // how many batches are careful from now on
	resolves   atomic.Int64 // how many batches with terms expect taken keys from now on
	closed     atomic.Bool  // set before the pool is closed
	verbs
}

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Inspector = (*Store)(nil)
	_ storage.Settings  = (*Store)(nil)
	_ storage.Shared    = (*Store)(nil)
)

// Open opens the store in the database that url names: a connection string of libpq with the options
// of pgxpool. Its pool_max_conns is the number of connections in all. Two of them are for batches of an engine
// (one if there are 2 or 3), the others for reads and for [Store.Pool]. Unless it is 1, up to seven more are open for a
// time for statements that may wait for locks. If [schema.Migrate] has not made the tables or brought them up to date, the error
// wraps [schema.ErrMismatch]. When Open fails it leaves no connection open.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	name, err := schema.Name(o.Schema)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // it names the url, without the password
	}
	pgsession.Prepare(&config.ConnConfig.Config)
	if o.Again == nil {
		o.Again = func() (string, error) { return url, nil }
	}
	config.AfterConnect = registerArrays
	if config.ShouldPing == nil {
		config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > pingAfter }
	}
	s := &Store{log: o.Log, lent: make(chan struct{}, 1), identity: identity{schema: name}}
	renew := pgsession.Renew(o.Again)
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		s.identity.name(c)
		return renew(ctx, c)
	}
	if err := s.connect(ctx, config); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.partitions.connect = func(ctx context.Context) (*pgx.Conn, error) {
		own := config.ConnConfig.Copy()
		if err := config.BeforeConnect(ctx, own); err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, own)
	}
	s.partitions.schema, s.partitions.log = name, s.log
	s.partitions.start()
	s.verbs = verbs{store: s}
	if _, err := schema.Check(ctx, s.pool, name); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.sql = statementsIn(name)
	if idle := pgsession.Transaction(&config.ConnConfig.Config, cmp.Or(o.Idle, pgsession.Idle)); idle != "" {
		for i := range s.sql.first.settings {
			s.sql.first.settings[i] += ", " + idle
		}
	}
	return s, nil
}

// writers is how many connections are for writes: the engine has two writers.
const writers = 2

// asideConns is how many connections are for batches that may wait for locks, as many as an engine has writers for them;
// directConns is how many are for writes that are no batches. asideIdle is how long an unused one stays.
const (
	asideConns  = 4
	directConns = 3
	asideIdle   = time.Minute
)

// limitLocks limits how long a connection for writes waits for a lock while it prepares a statement, which is before the
// transaction with its own limit. A session that a pooler lends, with another process than it says, does not change.
func limitLocks(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, fmt.Sprintf("select set_config('lock_timeout', '%d', false) where pg_backend_pid() = %d", lockPatience[whole], c.PgConn().PID()),
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	return registerArrays(ctx, c)
}

// connect makes the pools. They have only the connections yet that config asks for.
func (s *Store) connect(ctx context.Context, config *pgxpool.Config) (err error) {
	all, writing := config.MaxConns, config.Copy()
	defer func() {
		if err != nil {
			s.closePools()
		}
	}()
	writing.AfterConnect = limitLocks
	for pool, conns := range map[**pgxpool.Pool]int32{&s.aside: asideConns, &s.direct: directConns} {
		waiting := writing.Copy()
		waiting.MaxConns, waiting.MinConns, waiting.MinIdleConns, waiting.MaxConnIdleTime = conns, 0, 0, asideIdle
		if all == 1 {
			break
		}
		if *pool, err = pgxpool.NewWithConfig(ctx, waiting); err != nil {
			return err
		}
	}
	writing.MaxConns, writing.MinConns, writing.MinIdleConns = min(writers, all/2), 0, 0
	if writing.MaxConns > 0 {
		if s.writer, err = pgxpool.NewWithConfig(ctx, writing); err != nil {
			return err
		}
		config.MaxConns -= writing.MaxConns
		config.MinConns, config.MinIdleConns = min(config.MinConns, config.MaxConns), min(config.MinIdleConns, config.MaxConns)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if s.writer == nil {
		s.writer, s.aside, s.direct = s.pool, s.pool, s.pool
	}
	return nil
}

// closePools closes the pools that there are.
func (s *Store) closePools() {
	for _, pool := range []*pgxpool.Pool{s.pool, s.writer, s.aside, s.direct} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.closed.Store(true)
	s.partitions.close()
	s.closePools()
	return nil
}

// Pool returns the connections that the store does not keep for its writes. The caller may use them
// for its own data, and does not close them.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Schema returns the name of the schema where the tables are.
func (s *Store) Schema() string { return s.partitions.schema }

// failed returns the error of an operation. It wraps an error of package storage with the meaning of the
// error of the driver, if that is known.
func (s *Store) failed(doing string, err error) error {
	if s.closed.Load() {
		err = storage.ErrClosed
	}
	if home.IsRefused(err) {
		err = storage.ErrElsewhere
	}
	// A store that is open has connected before: a password that is refused now is being changed.
	if refused := (*pgconn.ConnectError)(nil); IsUnavailable(err) || errors.As(err, &refused) {
		return fmt.Errorf("postgres: %s: %w: %w", doing, storage.ErrUnavailable, err)
	}
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" { // the transaction was rolled back
		refused := storage.ErrRefused
		if slices.Contains(busyCodes, said.Code) {
			refused = storage.ErrBusy
		}
		return fmt.Errorf("postgres: %s: %w: %w", doing, refused, err)
	}
	return fmt.Errorf("postgres: %s: %w", doing, err)
}

// IsUnavailable reports whether an error of the driver says that the database could not be reached,
// or that the connection was lost or refused for a reason that may pass: the server starts or
// stops, has no connection left, or is behind a pooler that waits for it.
func IsUnavailable(err error) bool {
	var url *pgconn.ParseConfigError
	if errors.As(err, &url) {
		return false
	}
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code != pgQueryCanceled && slices.Contains([]string{"08", "53", "57"}, said.Code[:2]) || slices.Contains(endedCodes, said.Code)
	}
	var dial *pgconn.ConnectError
	var network net.Error // deadlines, too
	return errors.As(err, &dial) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

const pgQueryCanceled = "57014"

// busyCodes are the codes of transactions that were rolled back because of others, or because they took too long: a lock
// is held, a deadlock, a serialization failure, an object in use, and a statement that an operator or a timeout of the role
// has cancelled.
var busyCodes = []string{"55P03", "40P01", "40001", "55006", pgQueryCanceled}

// endedCodes are the codes of sessions that the server has ended because their transaction was idle for too long, or took
// too long. The transaction was rolled back.
var endedCodes = []string{"25P03", "25P04"}

// IsTransient reports whether a transaction was rolled back only because of concurrent transactions,
// for example of one that has dropped a partition that it needed, or has
// brought a task back that is the head of its ordering key. It can be repeated.
func IsTransient(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && !home.IsRefused(err) &&
		(e.Code == "40001" || e.Code == "40P01" || e.Code == "23514" || e.Code == "23505" && e.ConstraintName == "task_head")
}
