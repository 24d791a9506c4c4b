// Package pgsession has the settings of the sessions that a node opens in PostgreSQL. Every connection of
// the engine is made with a configuration that [Prepare] has completed, and every transaction of the engine
// begins with [Transaction]. Transactions of callers have neither.
package pgsession

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Idle is how long the server waits for the next statement of a transaction before it ends the session: about
// a lease. A node that is lost or stops within a transaction keeps its locks for this long.
const Idle = 5 * time.Second

// Keep-alive of connections: the first probe is sent when nothing has arrived for probeAfter, the others
// every probeEvery. The connection is closed after this number of unanswered probes, or when sent data is
// not acknowledged for unacknowledged.
const (
	probeAfter     = 5 * time.Second
	probeEvery     = 2 * time.Second
	probes         = 3
	unacknowledged = 10 * time.Second
)

// parameters are the settings of a session that the server applies to its end of the connection. A connection
// by a Unix socket ignores them.
var parameters = [...]struct{ name, value string }{
	{"tcp_keepalives_idle", fmt.Sprint(int(probeAfter.Seconds()))},
	{"tcp_keepalives_interval", fmt.Sprint(int(probeEvery.Seconds()))},
	{"tcp_keepalives_count", fmt.Sprint(probes)},
	{"tcp_user_timeout", fmt.Sprint(unacknowledged.Milliseconds())},
}

// idleParameter is the setting that [Idle] is the value of.
const idleParameter = "idle_in_transaction_session_timeout"

// isolation makes the default isolation of the session the one that the statements of the engine need, if
// the database or the role sets another one.
const isolation = `case when current_setting('default_transaction_isolation') <> 'read committed'
	then set_config('default_transaction_isolation', 'read committed', false) end`

// Prepare completes the configuration of a connection. Strings are read and written as the statements of the
// engine need it, regardless of settings of the database and the role. Both ends detect the loss of the other
// one; a setting for that in the connection string is kept. Settings that a pooler such as PgBouncer refuses
// at the start are made by a statement when the connection is open.
func Prepare(c *pgconn.Config) {
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["standard_conforming_strings"] = "on"
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes}}
	c.DialFunc = dialer.DialContext
	settings := []string{isolation}
	for _, p := range parameters {
		if !isGiven(c, p.name) {
			settings = append(settings, fmt.Sprintf("set_config('%s', '%s', false)", p.name, p.value))
		}
	}
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		err := set(ctx, conn, settings)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR" {
			return set(ctx, conn, settings[:1]) // a server or a pooler that does not know the others works without them
		}
		return err
	}
}

// set makes settings of a session.
func set(ctx context.Context, conn *pgconn.PgConn, settings []string) error {
	_, err := conn.Exec(ctx, "select "+strings.Join(settings, ", ")).ReadAll()
	return err
}

// isGiven reports whether the connection string has a setting.
func isGiven(c *pgconn.Config, name string) bool {
	_, ok := c.RuntimeParams[name]
	return ok || strings.Contains(c.RuntimeParams["options"], name)
}

// Transaction returns an expression of SQL, to be selected at the beginning of a transaction, that limits to
// idle how long the server waits for each of its statements. It holds until the transaction ends, so it does
// not change the sessions that a pooler lends to others. It returns "" if the connection string of c says
// how long.
func Transaction(c *pgconn.Config, idle time.Duration) string {
	if isGiven(c, idleParameter) {
		return ""
	}
	return fmt.Sprintf("set_config('%s', '%d', true)", idleParameter, idle.Milliseconds())
}

// Begin makes the settings of [Transaction] in a transaction that has just begun.
func Begin(ctx context.Context, tx pgx.Tx) error {
	setting := Transaction(&tx.Conn().Config().Config, Idle)
	if setting == "" {
		return nil
	}
	_, err := tx.Exec(ctx, "select "+setting, pgx.QueryExecModeSimpleProtocol)
	return err
}
