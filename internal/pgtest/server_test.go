//go:build unix

package pgtest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/internal/servertest"
)

// roleVariable is the variable that makes a copy of this test program play a role instead of running tests.
const roleVariable = "PGTEST_ROLE"

// server is set once, by TestMain.
var server *Server

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == roleOwner {
		own()
		return
	}
	os.Exit(Run(m, func(s *Server) { server = s }))
}

func TestWhatIsCommittedIsForced(t *testing.T) {
	conn := connect(t, server.Database(t))
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if now := ask[string](t, conn, "SHOW "+setting); now != "on" {
			t.Errorf("%s is %s", setting, now)
		}
	}
}

func TestTheVersionIsTheOneThatTheServerSays(t *testing.T) {
	conn := connect(t, server.Database(t))
	if says := ask[int](t, conn, "SELECT current_setting('server_version_num')::int"); says != server.Version() {
		t.Errorf("Version() is %d, the server says %d", server.Version(), says)
	}
}

func TestSettingsComeAfterThoseOfTheHouse(t *testing.T) {
	s := startOne(t, "max_connections=23", "work_mem=7MB")
	conn := connect(t, s.URL("postgres"))
	for setting, want := range map[string]string{"max_connections": "23", "work_mem": "7MB"} {
		if now := ask[string](t, conn, "SHOW "+setting); now != want {
			t.Errorf("%s is %s, want %s", setting, now, want)
		}
	}
}

func TestACrashLosesNothingThatWasCommitted(t *testing.T) {
	s := startOne(t)
	database := s.Database(t)
	conn := connect(t, database)
	execute(t, conn, "CREATE TABLE things (n int)")
	for n := range 30 {
		execute(t, conn, "INSERT INTO things VALUES ($1)", n)
	}
	execute(t, conn, "BEGIN")
	execute(t, conn, "INSERT INTO things VALUES (300)")

	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), database); err == nil {
		t.Error("a server that has crashed still answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}

	conn = connect(t, database)
	rows, _ := conn.Query(t.Context(), "SELECT n FROM things ORDER BY n")
	kept, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int, 30)
	for n := range want {
		want[n] = n
	}
	if !slices.Equal(kept, want) {
		t.Errorf("after the crash there are %v", kept)
	}
	log, err := os.ReadFile(filepath.Join(s.group.Folder(), "postgres.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "not properly shut down") {
		t.Errorf("the server did not recover, so it had not crashed:\n%s", log)
	}
}

func TestOnlyARunningServerCrashesAndOnlyACrashedOneRestarts(t *testing.T) {
	s := startOne(t)
	if err := s.Restart(); err == nil {
		t.Error("a running server was started again")
	}
	s.Database(t) // its cleanup must bear that the server is down
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(); err == nil {
		t.Error("a server crashed twice")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing a server that is down: %v", err)
	}
	if err := s.Restart(); err == nil {
		t.Error("a closed server was started again")
	}
}

func TestCloseRemovesTheFolderAndMayBeRepeated(t *testing.T) {
	s := startOne(t)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(s.group.Folder()); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.group.Folder(), err)
	}
	if err := ping(t.Context(), s.URL("postgres")); err == nil {
		t.Error("a closed server answers")
	}
}

func TestAServerHasNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	startOne(t)
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	s, err := Start("work_mem=plenty")
	if err == nil {
		s.Close()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), `"work_mem": "plenty"`) {
		t.Errorf("it says: %v", err)
	}
}

// startOne starts a server for one test.
func startOne(t *testing.T, settings ...string) *Server {
	t.Helper()
	s, err := Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // which any PgBouncer passes on
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
		defer cancel()
		_ = conn.Close(ctx) // the server may be gone
	})
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func ask[T any](t *testing.T, conn *pgx.Conn, question string) T {
	t.Helper()
	rows, _ := conn.Query(t.Context(), question)
	answer, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return answer
}

// drained returns when no process has the other end of r open.
func drained(t *testing.T, r *os.File) {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(servertest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatalf("a process still has the pipe open: %v", err)
	}
}
