//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/internal/servertest"
)

// Bouncer starts a PgBouncer before the server and returns its address as host:port. It
// pools connections by transaction and authenticates no client; settings such as
// "default_pool_size=1" are lines of its configuration. It tries to reach a server that is down
// ten times a second. It ends with the test. See [Through] for the URL of a database.
//
// PgBouncer before 1.21 does not support prepared statements in this mode. A client that has to
// work with all versions uses none, as pgx does with QueryExecModeExec.
func (s *Server) Bouncer(tb testing.TB, settings ...string) string {
	tb.Helper()
	path, err := findBouncer()
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	var bouncer *servertest.Process
	port, err := servertest.AtFreePort(func(port int) (err error) {
		bouncer, err = s.launchBouncer(path, port, settings)
		return err
	})
	if err != nil {
		tb.Fatalf("pgtest: starting PgBouncer: %v", err)
	}
	tb.Cleanup(func() {
		if err := bouncer.End(syscall.SIGTERM); err != nil {
			tb.Errorf("pgtest: stopping PgBouncer: %v", err)
		}
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Through returns the URL of the same database through the bouncer at an address.
func Through(bouncer, databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		panic(fmt.Sprintf("pgtest: %q is not the URL of a database: %v", databaseURL, err))
	}
	u.Host = bouncer
	return u.String()
}

func (s *Server) launchBouncer(path string, port int, settings []string) (*servertest.Process, error) {
	name := fmt.Sprint("pgbouncer-", port)
	// Only this bouncer has this database, so another program on the same port is noticed.
	own := filepath.Base(s.group.Folder())
	lines := append([]string{
		"[databases]",
		fmt.Sprintf("%s = host=127.0.0.1 port=%d user=postgres dbname=postgres", own, s.port),
		fmt.Sprintf("* = host=127.0.0.1 port=%d user=postgres", s.port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port),
		"unix_socket_dir =",
		"auth_type = any",
		"pool_mode = transaction",
		"max_client_conn = 1000",
		"server_login_retry = 0.1",
	}, settings...)
	file := filepath.Join(s.group.Folder(), name+".ini")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	p, err := s.group.Start(name, path, file)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	err = p.Await(func(ctx context.Context) error { return ping(ctx, databaseURL(address, own)) })
	if err != nil {
		return nil, err
	}
	return p, nil
}
