// Package database opens the PostgreSQL databases that a configuration names: one, or several
// that hold a part of the tasks each.
package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

const (
	patience      = 10 * time.Second       // with a database that does not answer at the start
	pause         = 250 * time.Millisecond // between two tries
	probePatience = 5 * time.Second        // with a database that is only examined
)

// OldestServer is the oldest version of PostgreSQL that nodes use.
const OldestServer = 14

// Open opens the store in PostgreSQL, of one database or of several.
func Open(ctx context.Context, c config.Storage, log *slog.Logger) (storage.Store, error) {
	if len(c.Databases) > 0 {
		s, err := OpenSharded(ctx, c, log)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	store, err := await(ctx, c, Key(config.Main), log)
	if err != nil {
		return nil, err
	}
	if err := Retry(ctx, c, log, func(ctx context.Context) error { return CheckWhole(ctx, store) }); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// CheckWhole returns an error if a database holds only some of the shards.
func CheckWhole(ctx context.Context, store *postgres.Store) error {
	home, err := store.Holdings(ctx)
	if err == nil && home.Owned != task.AllShards() {
		err = fmt.Errorf("the database of storage.url holds the shards %q only, and others hold the rest; name all of them in storage.databases", &home.Owned)
	}
	return OneLine(err)
}

// Key returns the key in the configuration that has the URL of a database.
func Key(name string) string {
	if name == config.Main {
		return "storage.url"
	}
	return "storage.databases." + name
}

// await opens the store in the database of c.URL, which is at key in the configuration. It tries
// a database that does not answer for a while: it may be starting together with this node.
func await(ctx context.Context, c config.Storage, key string, log *slog.Logger) (*postgres.Store, error) {
	return untilItAnswers(ctx, key, log, func(ctx context.Context) (*postgres.Store, error) { return tryOnce(ctx, c, key, log) })
}

// untilItAnswers calls try until its database answers or the patience is over. The error is that
// of the last try that had the time to fail: one that was cut off has no reason to give.
func untilItAnswers[S any](ctx context.Context, key string, log *slog.Logger, try func(context.Context) (S, error)) (none S, err error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var reason error
	for {
		store, err := try(within)
		switch {
		case err == nil:
			return store, nil
		case ctx.Err() != nil:
			return none, context.Cause(ctx)
		case within.Err() != nil && reason != nil: // the try was cut off
		case !postgres.IsUnavailable(err):
			return none, err
		default:
			if reason == nil {
				warn(log, err)
			}
			reason = err
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
			return none, silent(reason, key)
		}
	}
}

// silent returns the error of a database that was tried until the patience was over.
func silent(reason error, key string) error {
	return fmt.Errorf("the database did not answer for %v: %w; start it, or correct %s", patience, OneLine(reason), key)
}

// warn logs that the database is tried again.
func warn(log *slog.Logger, reason error) {
	log.Warn("the database does not answer and is tried again", "for", patience, "error", OneLine(reason))
}

// Retry calls use, and again for a while if the databases of c do not answer: they were open, and may have crashed
// since. use may take as long as it needs.
func Retry(ctx context.Context, c config.Storage, log *slog.Logger, use func(context.Context) error) error {
	var end time.Time // of the patience, which begins with the first failure
	for {
		err := use(ctx)
		switch {
		case err == nil, ctx.Err() != nil, !postgres.IsUnavailable(err) && !errors.Is(err, storage.ErrUnavailable):
			return err
		case end.IsZero():
			end = time.Now().Add(patience)
			warn(log, err)
		case time.Now().After(end):
			return silent(err, strings.Join(keys(c), ", or "))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keys returns the keys in the configuration that have the URLs of the databases.
func keys(c config.Storage) []string {
	all := []string{Key(config.Main)}
	for _, name := range slices.Sorted(maps.Keys(c.Databases)) {
		all = append(all, Key(name))
	}
	return all
}

// tryOnce opens the store in the database of c.URL, which is at key in the configuration, if the
// database answers now.
func tryOnce(ctx context.Context, c config.Storage, key string, log *slog.Logger) (*postgres.Store, error) {
	store, err := postgres.Open(ctx, c.URL.Reveal(), postgres.Options{Schema: c.Schema, Log: log, Again: c.URL.Now})
	if err != nil {
		return nil, OneLine(err)
	}
	if err := checkServer(ctx, store.Pool(), key, log); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// Probe returns the problem of the database of c.URL, which is at key in the configuration. It waits a
// few seconds for an answer.
func Probe(ctx context.Context, c config.Storage, key string) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	store, err := tryOnce(ctx, c, key, slog.New(slog.DiscardHandler))
	switch {
	case err == nil:
		return store.Close()
	case postgres.IsUnavailable(err):
		return fmt.Errorf("%w; start the database, or correct the url", err)
	}
	return err
}

// checkServer refuses an unusable server, and warns of one that can lose acknowledged commits.
func checkServer(ctx context.Context, pool *pgxpool.Pool, key string, log *slog.Logger) error {
	var version int
	var readOnly bool
	var off []string
	err := pool.QueryRow(ctx, `
select current_setting('server_version_num')::int, pg_is_in_recovery(),
	array(select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off' order by name)`,
	).Scan(&version, &readOnly, &off)
	switch {
	case err != nil:
		return fmt.Errorf("look at the settings of the database: %w", OneLine(err))
	case version/10000 < OldestServer:
		return fmt.Errorf("the database is PostgreSQL %d, and this program needs %d or newer; upgrade it", version/10000, OldestServer)
	case readOnly:
		return fmt.Errorf("the database is a standby, which takes no changes; name the primary in %s, "+
			"or all servers and the option target_session_attrs=read-write", key)
	case len(off) > 0:
		log.Warn("tasks that were accepted may be lost when the database crashes: turn its settings on", "off", strings.Join(off, ", "))
	}
	return nil
}

// ServerVersion returns the version of the PostgreSQL server at a URL, such as 17. It waits a few seconds for an answer.
func ServerVersion(ctx context.Context, url string) (version int, err error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	config, err := pgxpool.ParseConfig(url) // it removes the options of a pool
	if err != nil {
		return 0, OneLine(err)
	}
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return 0, OneLine(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = c.QueryRow(ctx, "select current_setting('server_version_num')::int / 10000", pgx.QueryExecModeSimpleProtocol).Scan(&version)
	return version, OneLine(err)
}

// lineError is an error with a text of one line.
type lineError struct{ error }

// Error returns the lines of the error, put together.
func (e lineError) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e lineError) Unwrap() error { return e.error }

// OneLine returns an error of the database driver with its text on one line: the driver writes a line
// for each address of a server. It returns nil for nil.
func OneLine(err error) error {
	if err == nil {
		return nil
	}
	return lineError{err}
}
