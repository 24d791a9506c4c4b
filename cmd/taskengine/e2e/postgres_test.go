package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
)

// shared is the PostgreSQL of all tests that do not crash it. The first of them
// starts it, and TestMain closes it.
var shared struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func databases(t *testing.T) *pgtest.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = pgtest.Start("max_connections=400") })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func closeServer(code int) {
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if err := closeCoordinators(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// tables returns the URL of a database that has the tables.
func tables(t *testing.T) string {
	t.Helper()
	return databases(t).Prepared(t, func(url string) error { return makeTables(t, url) })
}

// query runs statements and returns the first value of the last one, as text.
func query(t *testing.T, url string, statements ...string) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit) // it is for clean-ups, too
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, sql := range statements {
		rows, err := c.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			value = fmt.Sprint(values[0])
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return value
}

// onPostgres returns the storage of a configuration.
func onPostgres(url string) string { return fmt.Sprintf("{driver: postgres, url: %q}", url) }

// onDatabase returns a configuration that keeps tasks in a database.
func onDatabase(t *testing.T, url string) string {
	t.Helper()
	return write(t, "taskengine.yaml", "storage: "+onPostgres(url)+"\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n")
}

// with returns a URL with another user, password or option.
func with(t *testing.T, databaseURL string, change func(*url.URL, url.Values)) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	change(u, q)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq knows no +
	return u.String()
}

// runUntilEnd runs a node that does not start.
func runUntilEnd(t *testing.T, file string, sets ...string) result {
	t.Helper()
	args := []string{"run", "-c", file, "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0", "--set", "task_log.path=" + t.TempDir()}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	return cli(t, nil, "", args...)
}

func TestADatabaseThatCannotBeUsedIsReported(t *testing.T) {
	t.Parallel()
	s := databases(t)
	ready, empty, newer := tables(t), s.Database(t), tables(t)
	query(t, newer, `insert into taskengine.migration (version, name) select max(version) + n, 'of tomorrow' from taskengine.migration, generate_series(1, 2) n group by n`)
	query(t, ready, "create role outsider login password 'hunter2'")
	t.Cleanup(func() { query(t, s.URL("postgres"), "drop role outsider") })
	as := func(user *url.Userinfo) string {
		return with(t, ready, func(u *url.URL, _ url.Values) { u.User = user })
	}
	for name, c := range map[string]struct {
		url  string
		says []string
	}{
		"without tables":        {empty, []string{"there are no tables in the schema taskengine", "taskengine migrate apply"}},
		"with newer tables":     {newer, []string{"run a newer version of the program"}},
		"that is not there":     {with(t, ready, func(u *url.URL, _ url.Values) { u.Path = "/nowhere" }), []string{`database "nowhere" does not exist`}},
		"without rights":        {as(url.UserPassword("outsider", "hunter2")), []string{"permission denied"}},
		"as a role that is not": {as(url.UserPassword("nobody", "hunter2")), []string{`role "nobody" does not exist`}},
		"by an odd option": {with(t, ready, func(u *url.URL, q url.Values) {
			u.User = url.UserPassword("u", "hunter2")
			q.Set("sslmode", "odd")
			q.Set("password", "hunter2")
		}), []string{"sslmode"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := onDatabase(t, c.url)
			check := cli(t, nil, "", "config", "check", "-c", file)
			if check.code != exitConfig || !strings.Contains(check.stderr, "taskengine.yaml:1:34: storage.url: ") {
				t.Errorf("config check ended with %d: %s", check.code, check.stderr)
			}
			if r := cli(t, nil, "", "config", "check", "-c", file, "--probe=false"); r.code != exitOK {
				t.Errorf("without a probe config check ended with %d: %s", r.code, r.stderr)
			}
			run := runUntilEnd(t, file)
			if run.code != exitFailure {
				t.Errorf("the node ended with %d", run.code)
			}
			for _, says := range c.says {
				for _, said := range []string{check.stderr, run.stderr} {
					if !strings.Contains(said, says) || strings.Contains(said, "hunter2") {
						t.Errorf("it does not say %q, or says the password:\n%s", says, said)
					}
				}
			}
		})
	}
}

func TestADatabaseThatFitsPassesTheCheck(t *testing.T) {
	t.Parallel()
	if r := cli(t, nil, "", "config", "check", "-c", onDatabase(t, tables(t))); r.code != exitOK {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}

func TestADatabaseThatDoesNotAnswerIsTriedForAWhile(t *testing.T) {
	t.Parallel()
	nowhere := "postgres://taskengine:hunter2@127.0.0.1:1/tasks"
	check := cli(t, nil, "", "config", "check", "-c", onDatabase(t, nowhere))
	run := runUntilEnd(t, onDatabase(t, nowhere))
	if check.code != exitConfig || run.code != exitFailure {
		t.Errorf("they ended with %d and %d", check.code, run.code)
	}
	for _, said := range []string{check.stderr, run.stderr} {
		for _, says := range []string{"127.0.0.1:1", "user=taskengine", "database=tasks", "connection refused", "start"} {
			if !strings.Contains(said, says) || strings.Contains(said, "hunter2") {
				t.Errorf("it does not say %q, or says the password:\n%s", says, said)
			}
		}
	}
	if !strings.Contains(run.stderr, "did not answer for 10s") {
		t.Errorf("the node says\n%s", run.stderr)
	}
}

func TestADatabaseThatStartsLaterIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := own(t)
	file := onDatabase(t, tablesOn(t, s))
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	n := launch(t, "127.0.0.1:0", nil, "run", "-c", file)
	n.says(t, "the database does not answer and is tried again")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	n.awaitReady(t)
	n.ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
}

// The database crashes when the node has opened its store, and waits for its plugin.
func TestADatabaseThatCrashesWhileANodeStartsIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := own(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t)
	n := launch(t, "127.0.0.1:0", nil, "run", "-c", write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
handlers:
  late: {plugin: [/bin/sh, -c, ': > "$GATE.begun"; true < "$GATE.pipe"; exec %s'], env: {%s: plugin, GATE: %q}, start_timeout: 2m}
types: {shout: {handler: late}}
`, onPostgres(tablesOn(t, s)), self, role, string(g))))
	awaitFile(t, string(g)+".begun")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	g.open(t)
	n.says(t, "the database does not answer and is tried again")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	n.awaitReady(t)
	n.ok(t, "task", "add", "shout", "--wait", "--timeout", "1m")
}

// own starts a server that the test may crash.
func own(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	s, err := pgtest.Start(settings...)
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

func tablesOn(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	url := s.Database(t)
	if err := makeTables(t, url); err != nil {
		t.Fatal(err)
	}
	return url
}

// makeTables makes the tables in a database.
func makeTables(t *testing.T, url string) error {
	t.Helper()
	if r := cli(t, nil, "", "migrate", "apply", "--url", url); r.code != 0 {
		return fmt.Errorf("migrate apply ended with %d: %s", r.code, r.stderr)
	}
	return nil
}

func TestTheFolderOfTaskLogsBelongsToOneNode(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "logs")
	start(t, nil, "run", "-c", onDatabase(t, tables(t)), "--set", "task_log.path="+folder)
	r := runUntilEnd(t, onDatabase(t, tables(t)), "task_log.path="+folder)
	if r.code != exitFailure || !strings.Contains(r.stderr, folder) || !strings.Contains(r.stderr, "task_log.path") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}

func TestADatabaseThatLosesCommitsIsWarnedOf(t *testing.T) {
	t.Parallel()
	lossy := with(t, tables(t), func(_ *url.URL, q url.Values) { q.Set("options", "-c synchronous_commit=off") })
	n := start(t, nil, "run", "-c", onDatabase(t, lossy))
	n.says(t, `"off":"synchronous_commit"`)
}
