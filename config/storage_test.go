package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePasswordOfADatabaseIsNeverShown(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "url"), []byte("postgres://u:hunter2@localhost/tasks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{
		"postgres://u:hunter2@localhost:5432/tasks",
		"postgres://u:hunter2@a:1,b/tasks",
		"postgres://u@localhost/tasks?password=hunter2&sslpassword=hunter2",
		"postgres:///tasks?sslmode=disable&password=a@hunter2",
		"${SECRET_URL}", "${file:" + folder + "/url}",
	} {
		env := func(string) (string, bool) { return "postgres://u:hunter2@localhost/tasks", true }
		c, err := Load(write(t, "storage: {driver: postgres, url: '"+written+"'}"), nil, env)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{c.String(), string(asJSON), fmt.Sprintf("%v %+v %#v", c.Storage, c.Storage, c.Storage)} {
			if strings.Contains(shown, "hunter2") {
				t.Errorf("it is shown: %s", shown)
			}
		}
		if !strings.Contains(c.Storage.URL.Reveal(), "hunter2") {
			t.Errorf("it is lost: %s", c.Storage.URL.Reveal())
		}
		again := mustLoad(t, strings.ReplaceAll(c.String(), "${SECRET_URL}", "postgres:///tasks"))
		if again.Storage.Driver != Postgres || again.Storage.Schema != "taskengine" {
			t.Errorf("the dump gives %+v", again.Storage)
		}
	}
}

func TestHiddenPasswordsLeaveTheRestOfALineWhereItIs(t *testing.T) {
	for line, want := range map[string]string{
		`storage: {url: "postgres://u:hünter@h/db", schema: x}`: `storage: {url: "postgres://u:******@h/db", schema: x}`,
		"url: postgres://u:p@ss/w0rd@h:5432/db":                 "url: postgres://u:*********@h:5432/db",
		"url: postgres://h:5432/db?password=a@b&user=c":         "url: postgres://h:5432/db?password=***&user=c",
		"url: postgres://u@h:5432/db":                           "url: postgres://u@h:5432/db",
		"url: http://h:80/a, mail: a@b":                         "url: http://h:80/a, mail: a@b",
		"password=hunter2":                                      "password=*******",
	} {
		if got := hidePasswords(line); got != want {
			t.Errorf("%s becomes %s, want %s", line, got, want)
		}
	}
}

func TestTheLogsOfTasksAreBesideTheTasksUnlessConfiguredOtherwise(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "data/task-logs",
		"storage: {path: db}":    "db/task-logs",
		"storage: {path: /db}":   "/db/task-logs",
		"task_log: {path: logs}": "logs",
		"{storage: {driver: postgres, url: 'postgres:///tasks'}}":                          "data/task-logs",
		"{storage: {driver: postgres, url: 'postgres:///tasks'}, task_log: {path: /logs}}": "/logs",
	} {
		c := mustLoad(t, text)
		if !filepath.IsAbs(want) {
			want = filepath.Join(filepath.Dir(c.tree.at.in.name), want)
		}
		if c.TaskLog.Path != want {
			t.Errorf("%q puts them into %s, want %s", text, c.TaskLog.Path, want)
		}
	}
}

func TestMemoryTakesTheFileOfAnyDriver(t *testing.T) {
	for _, storage := range []string{"{path: db}", "{driver: bolt}", "{driver: postgres, url: 'postgres:///tasks', schema: x}"} {
		if c := mustLoad(t, "storage: "+storage, "storage.driver=memory"); c.Storage.Driver != Memory {
			t.Errorf("%s gives %+v", storage, c.Storage)
		}
	}
}
