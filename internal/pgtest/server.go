//go:build unix

// Package pgtest starts a real PostgreSQL for tests: a server of their own, which makes commits
// durable as in production, can be crashed and started again, and can have a PgBouncer in front.
// Nothing of it outlives the test process, however that ends.
//
//	var server *pgtest.Server
//
//	func TestMain(m *testing.M) {
//		os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
//	}
//
//	func TestThatRowsAreKept(t *testing.T) {
//		conn, err := pgx.Connect(t.Context(), server.Database(t))
//		...
//	}
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/servertest"
)

// oldest is the first version that ends the connections to a database that it drops.
const oldest = 130000

// Server is a PostgreSQL server that belongs to this process: a new cluster in a temporary
// folder, which listens on a Unix socket there and on a port of 127.0.0.1, and authenticates no
// client. Commits are as durable as by default: fsync, synchronous_commit and full_page_writes
// are on. Its methods may be called from any goroutine. It has no goroutine of its own that a
// check for leaks would find.
type Server struct {
	bin      string   // the folder of initdb and postgres
	settings []string // name=value, later ones win
	group    *servertest.Group
	port     int
	version  int
	made     atomic.Int64 // databases so far
	prepared prepared

	mu       sync.Mutex
	postgres *servertest.Process // guarded by mu: nil while the server is down
	closed   bool                // guarded by mu
	idle     *pgx.Conn           // guarded by mu: a connection for statements of administer, or nil
}

// Start starts a new server with settings such as "max_connections=500" and returns when it
// answers. The caller must call Close; see [Run] for a server that a whole package shares.
//
// The programs come from $TASKENGINE_POSTGRES_BIN if that is set, else from the newest version below
// /usr/lib/postgresql, else from the PATH. The folder is in [os.TempDir]. If this process runs as
// root, the programs run as the user postgres, because PostgreSQL refuses root.
func Start(settings ...string) (*Server, error) {
	s, err := start(settings)
	if err != nil {
		return nil, fmt.Errorf("pgtest: starting PostgreSQL: %w", err)
	}
	return s, nil
}

func start(settings []string) (*Server, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	c, err := servertest.NewGroup("pgtest", as)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, group: c, settings: append([]string{
		"listen_addresses=127.0.0.1",
		`unix_socket_directories="` + strings.ReplaceAll(c.Folder(), `"`, `""`) + `"`, // it is a list
		"max_connections=200",
		"shared_buffers=128MB",
		"fsync=on",
		"synchronous_commit=on",
		"full_page_writes=on",
		// A quarter of the processor time of a new connection is to load the library of PL/pgSQL.
		"shared_preload_libraries=plpgsql",
	}, settings...)}
	if err := s.create(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Run is for TestMain: it starts a server, passes it to use, runs the tests and closes the server.
// It returns the exit code. If no server can be started, it prints why, runs no test and returns
// 1. A package that checks for leaked goroutines uses [Start], and closes the server by
// goleak.Cleanup.
func Run(m *testing.M, use func(*Server)) int {
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(s)
	code := m.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// create creates the cluster, starts it for the first time, and reads its version.
func (s *Server) create() error {
	err := s.group.Run(filepath.Join(s.bin, "initdb"), "--pgdata="+s.data(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	s.port, err = servertest.AtFreePort(s.launch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
	defer cancel()
	conn, err := s.connect(ctx, s.port)
	if err != nil {
		return err
	}
	var version string
	err = conn.QueryRow(ctx, "SHOW server_version_num").Scan(&version)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("asking for its version: %w", err)
	}
	s.version, err = strconv.Atoi(version)
	if err == nil && s.version < oldest {
		return fmt.Errorf("the server in %s has version %d; %d or newer is needed", s.bin, s.version/10000, oldest/10000)
	}
	return err
}

// launch starts the server on its existing data and returns when it answers.
func (s *Server) launch(port int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("the server has been closed")
	case s.postgres != nil:
		return errors.New("the server is running")
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(port)}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	p, err := s.group.Start("postgres", filepath.Join(s.bin, "postgres"), args...)
	if err != nil {
		return err
	}
	err = p.Await(func(ctx context.Context) error {
		conn, err := s.connect(ctx, port)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return err
	}
	s.postgres = p
	return nil
}

// stop ends the server by a signal.
func (s *Server) stop(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		return errors.New("the server is not running")
	}
	p := s.postgres
	s.postgres, s.idle = nil, nil // the server ends its connections
	return p.End(signal)
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.postgres != nil
}

// Crash kills the server and returns when all of its processes have ended: no transaction is finished,
// nothing more is written, and the next start recovers from the log. Unlike in a power failure, data
// that was passed to the operating system is not lost. A server that other tests use at the same time
// must not be crashed.
func (s *Server) Crash() error {
	if err := s.stop(syscall.SIGQUIT); err != nil {
		return fmt.Errorf("pgtest: crashing PostgreSQL: %w", err)
	}
	return nil
}

// Restart starts a server that has been crashed on the same data and the same port, and
// returns when it answers.
func (s *Server) Restart() error {
	if err := s.launch(s.port); err != nil {
		return fmt.Errorf("pgtest: starting PostgreSQL again: %w", err)
	}
	return nil
}

// Keep copies the data of the server, as an asynchronous standby has it that gets no further. The server is restarted
// for that.
func (s *Server) Keep() error {
	err := s.Crash()
	if err == nil {
		err = s.group.Run("cp", "-a", s.data(), s.standby())
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		return fmt.Errorf("pgtest: keeping a copy of the data: %w", err)
	}
	return nil
}

// FailOver replaces the server by the copy that Keep has made, at the same address: commits since then are lost.
func (s *Server) FailOver() error {
	err := s.Crash()
	if err == nil {
		err = errors.Join(os.RemoveAll(s.data()), os.Rename(s.standby(), s.data()))
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		return fmt.Errorf("pgtest: failing over to the copy of the data: %w", err)
	}
	return nil
}

// Version returns server_version_num, such as 150004.
func (s *Server) Version() int { return s.version }

// Close stops the server and removes its folder. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var stopped error
	if s.postgres != nil {
		stopped = s.postgres.End(syscall.SIGINT)
		s.postgres, s.idle = nil, nil
	}
	if err := errors.Join(stopped, s.group.Close()); err != nil {
		return fmt.Errorf("pgtest: stopping PostgreSQL: %w", err)
	}
	return nil
}

func (s *Server) standby() string { return filepath.Join(s.group.Folder(), "standby") }

func (s *Server) data() string { return filepath.Join(s.group.Folder(), "data") }
