//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// backs runs backup or restore and returns its output.
func backs(t *testing.T, args ...string) backupJSON {
	t.Helper()
	r := cli(t, nil, "", append(args, "-o", "json")...)
	if r.code != exitOK {
		t.Fatalf("%q ends with %d: %s", args, r.code, r.stderr)
	}
	var said backupJSON
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil {
		t.Fatalf("%q: %v", r.stdout, err)
	}
	return said
}

// only fails the test unless a folder has these entries.
func only(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("%s has %q, want %q", folder, names, want)
	}
}

func TestANodeIsBackedUpWhileItWorksAndRestored(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			data, backups := filepath.Join(t.TempDir(), "data"), t.TempDir()
			config := func(path string) string {
				return write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", driver, path))
			}
			file := config(data)
			n := start(t, nil, "run", "-c", file)
			done := n.objects(t, "task", "add", "copy", "--data", "1", "--wait")[0]["id"].(string)
			waits := n.objects(t, "task", "add", "copy", "--in", "99h")[0]["id"].(string)
			hot := filepath.Join(backups, "hot")
			said := backs(t, "backup", hot, "--from", file, "--admin", n.admin)
			if said.Folder != hot || said.Tasks != 2 || said.Bytes == 0 {
				t.Errorf("it says %+v", said)
			}
			late := n.objects(t, "task", "add", "copy", "--in", "99h")[0]["id"].(string)
			doctor(t, exitOK, driver+":"+hot).has(t, isInfo, "tasks", "2: 0 are ready, 1 wait, 1 have ended")

			if r := cli(t, nil, "", "backup", hot, "--from", file, "--admin", n.admin); r.code != exitFailure || !strings.Contains(r.stderr, "not empty") {
				t.Errorf("over a backup: %+v", r)
			}
			other := filepath.Join(backups, "other")
			if r := cli(t, nil, "", "backup", other, "--from", file, "--admin", "127.0.0.1:1"); r.code != exitUnavailable || !strings.Contains(r.stderr, "--admin") {
				t.Errorf("with no node there: %+v", r)
			}
			web := httptest.NewServer(http.NotFoundHandler())
			defer web.Close()
			if r := cli(t, nil, "", "backup", other, "--from", file, "--admin", web.URL); r.code != exitUnavailable || !strings.Contains(r.stderr, "404") || !strings.Contains(r.stderr, "--admin") {
				t.Errorf("with something else there: %+v", r)
			}
			stranger := start(t, nil, "run", "-c", config(filepath.Join(t.TempDir(), "data")))
			if r := cli(t, nil, "", "backup", other, "--from", file, "--admin", stranger.admin); r.code != exitUsage || !strings.Contains(r.stderr, "uses the store in") {
				t.Errorf("of another node: %+v", r)
			}
			if r := cli(t, nil, "", "restore", hot, "--to", file); r.code != exitFailure || !strings.Contains(r.stderr, "not empty") {
				t.Errorf("over a store: %+v", r)
			}
			only(t, backups, "hot")
			n.signal(t, syscall.SIGTERM)
			n.exit(t)
			if said := backs(t, "backup", other, "--from", driver+":"+data); said.Tasks != 3 {
				t.Errorf("of a store that nobody uses, it says %+v", said)
			}

			back := filepath.Join(t.TempDir(), "back")
			if err := os.Mkdir(back, 0o700); err != nil {
				t.Fatal(err)
			}
			if said := backs(t, "restore", hot, "--to", driver+":"+back); said.Tasks != 2 {
				t.Errorf("it says %+v", said)
			}
			n = start(t, nil, "run", "-c", config(back))
			if got := n.objects(t, "task", "get", done)[0]; got["state"] != "done" || got["result"] != 1.0 {
				t.Errorf("a done task is %v", got)
			}
			if got := n.objects(t, "task", "get", waits)[0]; got["state"] != "waiting" {
				t.Errorf("a task that waited is %v", got)
			}
			if r := n.cli(t, "task", "get", late); r.code != exitNotFound {
				t.Errorf("a task from after the backup is there: %+v", r)
			}
		})
	}
}

func TestADamagedStoreIsNotBackedUp(t *testing.T) {
	t.Parallel()
	source, backups := boltOf(t, 500), t.TempDir()
	file := filepath.Join(strings.TrimPrefix(source, "bolt:"), boltFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(whole), "xxxx", "xxyx", 1) // of a payload
	if text == string(whole) {
		t.Fatal("the file has no such payload")
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := cli(t, nil, "", "backup", filepath.Join(backups, "b"), "--from", source)
	if r.code != exitFailure || !strings.Contains(r.stderr, "the written backup is damaged") || !strings.Contains(r.stderr, "record of task") {
		t.Errorf("a damaged store: %+v", r)
	}
	only(t, backups)
	doctor(t, exitFailure, source).has(t, isError, "records", "record of task")
}

func TestABackupThatCannotBeRestoredIsReported(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	backup, back := filepath.Join(backups, "b"), filepath.Join(backups, "back")
	backs(t, "backup", backup, "--from", boltOf(t, 10))
	if r := cli(t, nil, "", "restore", backup, "--to", "pebble:"+back); r.code != exitFailure || !strings.Contains(r.stderr, "taskengine copy") {
		t.Errorf("to another driver: %+v", r)
	}
	if r := cli(t, nil, "", "restore", backups, "--to", "bolt:"+back); r.code != exitFailure || !strings.Contains(r.stderr, "there is no store") {
		t.Errorf("a folder without a backup: %+v", r)
	}
	only(t, backups, "b")
}

func TestAStoreThatIsCutShortIsRefused(t *testing.T) {
	t.Parallel()
	source := boltOf(t, 5000)
	file := filepath.Join(strings.TrimPrefix(source, "bolt:"), boltFile)
	if err := os.Truncate(file, 100_000); err != nil {
		t.Fatal(err)
	}
	config := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: bolt, path: %q}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n", filepath.Dir(file)))
	for _, args := range [][]string{{"run", "-c", config}, {"backup", filepath.Join(t.TempDir(), "b"), "--from", source}} {
		if r := cli(t, nil, "", args...); r.code != exitFailure || !strings.Contains(r.stderr, "the store is damaged") || !strings.Contains(r.stderr, "restore a backup") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	doctor(t, exitFailure, source).has(t, isError, "open", "the file ends after 100000 of")
}

func TestAStoreInADatabaseIsBackedUpByOtherTools(t *testing.T) {
	t.Parallel()
	const url = "postgres://db.example.com/tasks"
	if r := cli(t, nil, "", "backup", "x", "--from", url); r.code != exitUsage || !strings.Contains(r.stderr, "pg_dump --schema=taskengine") {
		t.Errorf("backup: %+v", r)
	}
	if r := cli(t, nil, "", "restore", "x", "--to", url); r.code != exitUsage || !strings.Contains(r.stderr, "taskengine copy") {
		t.Errorf("restore: %+v", r)
	}
}
