//go:build !race

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// doctor examines a store and returns the findings.
func doctor(t *testing.T, code int, args ...string) findings {
	t.Helper()
	r := cli(t, nil, "", append([]string{"doctor", "-o", "json"}, args...)...)
	if r.code != code {
		t.Fatalf("doctor %q ends with %d, want %d:\n%s%s", args, r.code, code, r.stdout, r.stderr)
	}
	var all findings
	for line := range strings.Lines(r.stdout) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, f)
	}
	return all
}

func TestTheDoctorExaminesFiles(t *testing.T) {
	t.Parallel()
	source := boltOf(t, 400)
	found := doctor(t, exitOK, source)
	found.has(t, isInfo, "records", "every task")
	found.has(t, isInfo, "tasks", "400: 100 are ready, 100 wait, 100 have ended")
	found.has(t, isWarning, "errors", "100 tasks")
	found.has(t, isInfo, "oldest", "copy")
	found.has(t, isInfo, "size", "free")
	if r := cli(t, nil, "", "doctor", source); r.code != exitOK || !strings.Contains(r.stdout, "warning  errors: 100 tasks are in the state error\n         their attempts") {
		t.Errorf("for people it is %+v", r)
	}

	folder := strings.TrimPrefix(source, "bolt:")
	db, err := bbolt.Open(filepath.Join(folder, boltFile), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte("taskengine")).Cursor()
		if key, _ := c.Seek([]byte("q")); key[0] != 'q' {
			return errors.New("there is no entry of a ready task")
		}
		return c.Delete()
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	doctor(t, exitFailure, source).has(t, isError, "records", "is missing")

	// Readable rows are there after a copy, and well.
	target := "pebble:" + filepath.Join(t.TempDir(), "data")
	copies(t, exitOK, "--from", source, "--to", target)
	doctor(t, exitOK, target).has(t, isInfo, "tasks", "400: 100 are ready")

	name := filepath.Join(folder, boltFile)
	if err := os.WriteFile(name, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	doctor(t, exitFailure, source).has(t, isError, "open", "invalid")
	if r := cli(t, nil, "", "doctor", "pebble:"+t.TempDir()); r.code != exitFailure || !strings.Contains(r.stderr, "there is no store") {
		t.Errorf("an empty folder: %+v", r)
	}
}

func TestTheDoctorExaminesADatabase(t *testing.T) {
	t.Parallel()
	url := tables(t)
	doctor(t, exitOK, url).no(t)
	if r := cli(t, nil, "", "doctor", url, "--schema", "other"); r.code != exitFailure || !strings.Contains(r.stdout, "migrate apply") {
		t.Errorf("a schema that is not there: %+v", r)
	}
	start(t, nil, "run", "-c", onDatabase(t, url), "--set", "node.name=alice", "--set", "task_log.path="+t.TempDir())
	found := doctor(t, exitOK, url)
	found.no(t)
	found.has(t, isInfo, "nodes", "alive: alice")

	// After an outage a node joins long after it was made, which is no sign of a wrong clock.
	query(t, url, "update taskengine.member set joined_at = joined_at + interval '47 seconds'")
	doctor(t, exitOK, url).no(t)

	query(t, url, "drop index taskengine.task_due")
	doctor(t, exitOK, url).has(t, isWarning, "tables", "task_due is missing")
	query(t, url, "insert into taskengine.migration (version, name) select max(version) + 1, 'of tomorrow' from taskengine.migration")
	doctor(t, exitOK, url).has(t, isWarning, "schema", "this program knows")
}
