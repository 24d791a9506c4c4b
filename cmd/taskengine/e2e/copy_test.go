//go:build !race

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

// boltOf makes a store with n tasks and returns how it is named.
func boltOf(t *testing.T, n int) string {
	t.Helper()
	folder := t.TempDir()
	s, err := bolt.Open(filepath.Join(folder, boltFile), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids, at := task.NewIDs([32]byte{1}), time.Now().Add(-time.Hour)
	states := []task.State{task.Submitted, task.Waiting, task.Done, task.Error}
	ts := make([]*task.Task, n)
	for i := range ts {
		ts[i] = &task.Task{
			ID: ids.Next(at), Version: 1, State: states[i%4], Type: "copy", Key: fmt.Sprint(i), CreatedAt: at, ReadyAt: at, UpdatedAt: at,
			Payload: []byte(strings.Repeat("x", i%500)),
		}
		if ts[i].State != task.Submitted {
			ts[i].NextEventAt = time.Now().Add(240 * time.Hour)
		}
	}
	slices.Reverse(ts)
	for batch := range slices.Chunk(ts, 1000) {
		if _, err := s.Insert(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	return "bolt:" + folder
}

// copies copies and returns the report.
func copies(t *testing.T, code int, args ...string) copyJSON {
	t.Helper()
	r := cli(t, nil, "", append([]string{"copy", "-o", "json"}, args...)...)
	if r.code != code {
		t.Fatalf("copy %q ends with %d, want %d:\n%s%s", args, r.code, code, r.stdout, r.stderr)
	}
	var report copyJSON
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("copy %q writes %q: %v\n%s", args, r.stdout, err, r.stderr)
	}
	return report
}

func TestTasksMoveFromANodeToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	const types = "\nhandlers: {copy: {exec: [/bin/cat]}}\nlimits: {all: {max: 9}}\ntypes: {copy: {limits: [all]}, later: {handler: copy}}\n"
	folder := filepath.Join(t.TempDir(), "data")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: pebble, path: %q}%s", folder, types))
	n := start(t, nil, "run", "-c", file)
	done := n.objects(t, "task", "add", "copy", "--data", `{"a": 1}`, "--wait")[0]["id"].(string)
	n.ok(t, "type", "pause", "later")
	n.ok(t, "limit", "set", "all", "--max", "7")
	paused := n.objects(t, "task", "add", "later", "--data", "2", "--key", "k")[0]["id"].(string)
	waits := n.objects(t, "task", "add", "copy", "--in", "99h")[0]["id"].(string)
	var before []object
	for _, id := range []string{done, paused, waits} {
		before = append(before, n.objects(t, "task", "get", id)...)
	}
	url := tables(t)
	if r := cli(t, nil, "", "copy", "--from", file, "--to", url); r.code != exitFailure || !strings.Contains(r.stderr, "in use") {
		t.Errorf("a source in use: %+v", r)
	}
	n.signal(t, syscall.SIGTERM)
	n.exit(t)

	database := write(t, "database.yaml", "storage: "+onPostgres(url)+types)
	if report := copies(t, exitOK, "--from", file, "--to", database); report.Tasks != 3 || report.Added != 3 || !report.Complete || report.Checksum != report.TargetChecksum {
		t.Errorf("the first report is %+v", report)
	}
	forth := filepath.Join(t.TempDir(), "forth")
	if report := copies(t, exitOK, "--from", url, "--to", "bolt:"+forth); report.Tasks != 3 || report.Settings != 2 { // the pauses, and the sources of the values of limits
		t.Errorf("the report of the way back is %+v", report)
	}
	limited := func(n *running, most float64) {
		t.Helper()
		if got := n.objects(t, "limit", "get", "all")[0]; got["max"] != most {
			t.Errorf("the limit that was changed to %v is %v", most, got)
		}
	}
	n = start(t, nil, "run", "-c", write(t, "forth.yaml", fmt.Sprintf("storage: {driver: bolt, path: %q}%s", forth, types)))
	limited(n, 7)
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	n = start(t, nil, "run", "-c", database)
	limited(n, 7)
	for _, want := range before {
		if got := n.objects(t, "task", "get", want["id"].(string))[0]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("in the database it is %v, before it was %v", got, want)
		}
	}
	if r := cli(t, nil, "", "copy", "--from", file, "--to", url); r.code != exitFailure || !strings.Contains(r.stderr, "nodes use the destination") {
		t.Errorf("a destination in use: %+v", r)
	}
	back := "pebble:" + filepath.Join(t.TempDir(), "back")
	if r := cli(t, nil, "", "copy", "--from", url, "--to", back); r.code != exitOK || !strings.Contains(r.stderr, "warning: nodes use the source") {
		t.Errorf("a source in use: %+v", r)
	}
	n.ok(t, "type", "resume", "later")
	n.ok(t, "task", "wait", paused)
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	if r := cli(t, nil, "", "copy", "--from", url, "--to", back); r.code != exitFailure || !strings.Contains(r.stderr, "other tasks") {
		t.Errorf("a destination that is not the same any more: %+v", r)
	}
}

func TestACopyThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	const n = 4000
	source, url := boltOf(t, n), tables(t)
	for kind, target := range map[string]string{
		"pebble": "pebble:" + filepath.Join(t.TempDir(), "data"), "bolt": "bolt:" + filepath.Join(t.TempDir(), "data"), "postgres": url,
	} {
		t.Run(kind, func(t *testing.T) {
			for kills, ended := 0, false; !ended; kills++ {
				cmd := program(context.Background(), t, nil, "copy", "--from", source, "--to", target)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				over := make(chan error, 1)
				go func() { over <- cmd.Wait() }()
				if kind == "postgres" && kills == 0 { // for certain in the middle
					for begin := time.Now(); query(t, url, "select count(*) > 0 from taskengine.task") != "true"; time.Sleep(time.Millisecond) {
						if time.Since(begin) > limit {
							t.Fatal("nothing is copied")
						}
					}
					cmd.Process.Kill()
				}
				select {
				case err := <-over:
					if ended = err == nil; !ended && cmd.ProcessState.Exited() {
						t.Fatalf("a copy that was not killed ended with %v", err)
					}
				case <-time.After(50 * time.Millisecond << kills):
					cmd.Process.Kill()
					<-over
				}
				if kind == "postgres" && kills == 0 {
					file := onDatabase(t, url)
					if r := runUntilEnd(t, file); r.code != exitFailure || !strings.Contains(r.stderr, "a copy to this store is not complete") {
						t.Errorf("a node on half a copy: %+v", r)
					}
				}
			}
			report := copies(t, exitOK, "--from", source, "--to", target)
			if report.Tasks != n || report.Added != 0 || !report.Complete || len(report.Differences) > 0 {
				t.Errorf("the last report is %+v", report)
			}
		})
	}
}

func TestACopyThatMeetsOtherTasksSaysSo(t *testing.T) {
	t.Parallel()
	source, other := boltOf(t, 8), "pebble:"+filepath.Join(t.TempDir(), "data")
	copies(t, exitOK, "--from", source, "--to", other)
	more := boltOf(t, 9)
	r := cli(t, nil, "", "copy", "--from", more, "--to", other)
	if r.code != exitFailure || !strings.Contains(r.stderr, "--merge") {
		t.Errorf("without --merge: %+v", r)
	}
	// The ids are the same, the times are not.
	report := copies(t, exitFailure, "--from", more, "--to", other, "--merge")
	if !report.Complete || report.Tasks != 9 || len(report.Differences) == 0 || report.Checksum == report.TargetChecksum {
		t.Errorf("the report is %+v", report)
	}
	if r := cli(t, nil, "", "copy", "--from", source, "--to", source); r.code != exitUsage {
		t.Errorf("onto itself: %+v", r)
	}
}
