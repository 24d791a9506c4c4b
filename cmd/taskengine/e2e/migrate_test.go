//go:build !race

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// newest is the version of the tables that this program makes.
var newest = len(schema.Migrations(schema.Default))

func TestMigrationsArePlannedAppliedAndPlannedNoMore(t *testing.T) {
	t.Parallel()
	url := databases(t).Database(t)
	plan := func() []object { return parse(t, succeeds(t, "migrate", "plan", "--url", url, "-o", "json")) }
	if got := plan(); len(got) != newest || got[0]["version"] != 1.0 || got[0]["name"] != "tables" || got[0]["applied_at"] != nil {
		t.Errorf("the plan for an empty database is %v", got)
	}
	if r := cli(t, nil, "", "migrate", "plan", "--url", url); !strings.Contains(r.stdout, "to come") || !strings.Contains(r.stderr, "taskengine migrate apply") {
		t.Errorf("the plan is\n%s%s", r.stdout, r.stderr)
	}
	if got := parse(t, succeeds(t, "migrate", "apply", "--url", url, "-o", "json")); len(got) != newest || got[0]["applied_at"] == nil {
		t.Errorf("applied are %v", got)
	}
	for _, m := range plan() {
		if at, err := time.Parse(time.RFC3339, fmt.Sprint(m["applied_at"])); err != nil || time.Since(at) > time.Hour {
			t.Errorf("version %v was applied at %v (%v)", m["version"], m["applied_at"], err)
		}
	}
	if r := cli(t, nil, "", "migrate", "apply", "--url", url); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, fmt.Sprintf("nothing to apply: the schema taskengine is at version %d", newest)) {
		t.Errorf("to apply them again ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	query(t, url, fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'of tomorrow')", newest+1))
	if got := plan(); len(got) != newest+1 || got[newest]["newer"] != true {
		t.Errorf("the plan with one of a newer program is %v", got)
	}
	for _, name := range []string{"apply", "sql"} {
		r := cli(t, nil, "", "migrate", name, "--url", url)
		if r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, fmt.Sprintf("a newer program has brought the schema taskengine to version %d", newest+1)) {
			t.Errorf("%s, on tables of the next version: %+v", name, r)
		}
	}
	query(t, url, fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'of the day after')", newest+2))
	for _, name := range []string{"apply", "sql"} {
		r := cli(t, nil, "", "migrate", name, "--url", url)
		if r.code != exitFailure || r.stdout != "" || !strings.Contains(r.stderr, "run a newer version of the program") {
			t.Errorf("%s, on tables of the version after the next: %+v", name, r)
		}
	}
}

func TestOfManyThatApplyAtOnceOneDoes(t *testing.T) {
	t.Parallel()
	url := databases(t).Database(t)
	results := make([]result, 4)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = cli(t, nil, "", "migrate", "apply", "--url", url, "-o", "json") })
	}
	all.Wait()
	did := 0
	for _, r := range results {
		if r.code != 0 {
			t.Errorf("one ended with %d: %s", r.code, r.stderr)
		}
		if r.stdout != "" {
			did++
		}
	}
	if did != 1 {
		t.Errorf("%d applied", did)
	}
}

func TestTheConfigurationNamesTheDatabase(t *testing.T) {
	t.Parallel()
	url := databases(t).Database(t)
	file := write(t, "taskengine.yaml", "storage: {driver: postgres, url: \"${DATABASE_URL}\", schema: work}\n")
	env := []string{"DATABASE_URL=" + url}
	for _, args := range [][]string{{"migrate", "apply", "-c", file}, {"migrate", "verify", "-c", file}, {"migrate", "plan", "--url", url, "--schema", "work"}} {
		if r := cli(t, env, "", args...); r.code != 0 {
			t.Errorf("%v ended with %d: %s", args, r.code, r.stderr)
		}
	}
	if got := query(t, url, "select to_regclass('work.task')::text || ' ' || coalesce(to_regclass('taskengine.task')::text, 'alone')"); got != "work.task alone" {
		t.Errorf("there is %s", got)
	}
}

func TestVerifyShowsEveryDifferenceAndFails(t *testing.T) {
	t.Parallel()
	url := tables(t)
	if r := cli(t, nil, "", "migrate", "verify", "--url", url); r.code != 0 || r.stdout != "" {
		t.Errorf("right after apply it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	query(t, url, "drop index taskengine.task_due", "alter table taskengine.task add mine int")
	r := cli(t, nil, "", "migrate", "verify", "--url", url)
	if r.code != exitFailure || !strings.Contains(r.stdout, "index task_due is missing: CREATE INDEX") || !strings.Contains(r.stdout, "column task.mine should not be there: integer") {
		t.Errorf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = cli(t, nil, "", "migrate", "verify", "--url", url, "-o", "json")
	got := parse(t, r.stdout)
	if r.code != exitFailure || len(got) != 2 || got[0]["object"] != "column task.mine" || got[0]["want"] != nil || got[1]["is"] != nil {
		t.Errorf("as JSON it is %s", r.stdout)
	}
}

func TestTheSQLDoesWhatApplyDoes(t *testing.T) {
	t.Parallel()
	url := databases(t).Database(t)
	sql := succeeds(t, "migrate", "sql", "--url", url)
	if all := succeeds(t, "migrate", "sql", "--all"); all != sql {
		t.Errorf("for an empty database it is\n%s\nand for any\n%s", sql, all)
	}
	psql := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", url)
	psql.Stdin = strings.NewReader(sql)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
	if r := cli(t, nil, "", "migrate", "sql", "--url", url); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, "up to date") {
		t.Errorf("afterwards it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	succeeds(t, "migrate", "verify", "--url", url)
	start(t, nil, "run", "-c", onDatabase(t, url)).ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
}

func TestMigrateRefusesWhatItCannotWorkOn(t *testing.T) {
	t.Parallel()
	url := databases(t).Database(t)
	pebble := write(t, "taskengine.yaml", "storage: {driver: pebble}\n")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no database":              {[]string{"plan"}, exitUsage, "--config"},
		"another driver":           {[]string{"plan", "-c", pebble}, exitUsage, "is not postgres"},
		"no URL":                   {[]string{"plan", "--url", "localhost"}, exitUsage, "--url is no URL"},
		"no name":                  {[]string{"sql", "--all", "--schema", "My Tasks"}, exitUsage, "--schema: "},
		"no tables to verify":      {[]string{"verify", "--url", url}, exitFailure, "there are no tables"},
		"nobody at the address":    {[]string{"apply", "--url", "postgres://u:hunter2@127.0.0.1:1/tasks"}, exitFailure, "connection refused"},
		"a mistake in the file":    {[]string{"plan", "--set", "storage.driver=postgres"}, exitConfig, "postgres needs storage.url"},
		"a command that is not":    {[]string{"up"}, exitUsage, "no command"},
		"arguments after a flag":   {[]string{"apply", "--url", url, "now"}, exitUsage, "now"},
		"an address for two hosts": {[]string{"plan", "--url", "postgres://u:hunter2@127.0.0.1:1,127.0.0.1:2/tasks"}, exitFailure, "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, nil, "", append([]string{"migrate"}, c.args...)...)
			if r.code != c.code || r.stdout != "" || !strings.Contains(r.stderr, c.says) || strings.Contains(r.stderr, "hunter2") || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("it ended with %d, want %d and %q in a line: %s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}
