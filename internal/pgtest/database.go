//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/servertest"
)

// Database creates an empty database and returns its URL. It is dropped when the test ends,
// together with its open connections.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	return s.make(tb, "template0")
}

// Copy creates a copy of the database at databaseURL. During the call there must be no other connections
// to that database. See [Server.Database] for the rest.
func (s *Server) Copy(tb testing.TB, databaseURL string) string {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatalf("pgtest: %q is not the URL of a database: %v", databaseURL, err)
	}
	return s.make(tb, strings.TrimPrefix(u.Path, "/"))
}

// prepared is the database that [Server.Prepared] copies.
type prepared struct {
	once sync.Once
	err  error
}

// preparedName is the name of that database.
const preparedName = "prepared"

// Prepared is Copy of a database that prepare has changed. Its first call on a server creates that database and calls
// prepare with its URL; all calls have the same prepare. It is for tests that each need the same tables: a copy takes half
// of the processor time of a new database with tables.
func (s *Server) Prepared(tb testing.TB, prepare func(databaseURL string) error) string {
	tb.Helper()
	p := &s.prepared
	p.once.Do(func() {
		if p.err = s.administer("CREATE DATABASE " + preparedName + " TEMPLATE template0"); p.err == nil {
			p.err = prepare(s.URL(preparedName))
		}
	})
	if p.err != nil {
		tb.Fatalf("pgtest: preparing a database: %v", p.err)
	}
	return s.make(tb, preparedName)
}

func (s *Server) make(tb testing.TB, template string) string {
	tb.Helper()
	name := fmt.Sprint("test_", s.made.Add(1))
	if err := s.administer("CREATE DATABASE " + name + " TEMPLATE " + template); err != nil {
		tb.Fatalf("pgtest: making a database: %v", err)
	}
	tb.Cleanup(func() {
		if !s.running() {
			return // crashed or closed: the folder is removed with the database
		}
		if err := s.administer("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: dropping the database %s: %v", name, err)
		}
	})
	return s.URL(name)
}

// URL returns the URL of a database, by TCP and as the superuser.
func (s *Server) URL(database string) string {
	return databaseURL(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), database)
}

// administer executes a statement in the database postgres. It keeps one connection for the next call.
func (s *Server) administer(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	conn, err := s.administrator(ctx)
	if err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, statement); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.mu.Lock()
	if s.idle == nil && s.postgres != nil {
		s.idle, conn = conn, nil
	}
	s.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Close(ctx)
}

// administrator returns the connection that is kept, if it is idle and alive, else a new one.
func (s *Server) administrator(ctx context.Context) (*pgx.Conn, error) {
	s.mu.Lock()
	conn := s.idle
	s.idle = nil
	s.mu.Unlock()
	if conn != nil && conn.Ping(ctx) == nil {
		return conn, nil
	}
	return s.connect(ctx, s.port)
}

func databaseURL(address, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: address, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// connect returns a connection to the server on a port, by the socket in its folder. The port
// itself could belong to another program.
func (s *Server) connect(ctx context.Context, port int) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(databaseURL("localhost", "postgres"))
	if err != nil {
		return nil, err
	}
	config.Host, config.Port = s.group.Folder(), uint16(port)
	return pgx.ConnectConfig(ctx, config)
}

// ping returns nil if a server accepts a connection.
func ping(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
