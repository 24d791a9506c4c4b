//go:build !race

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// awayConfig makes nodes with tasks that note their id and wait for the gate.
const awayConfig = `
node: {slots: 50, drain_timeout: 50s}
storage: %s
coordination: {lease: 2s}
handlers:
  hold: {exec: [/bin/sh, -c, 'echo "$TASKENGINE_TASK_ID" >> "$JOURNAL"; true < "$GATE.pipe"'], env: {GATE: %q, JOURNAL: %q}, grace: 100ms}
types:
  hold: {}
`

// eachHalf is how many tasks are in each of the two databases.
const eachHalf = 6

// A node is killed while one of two databases hangs. Its tasks of the other database run again at once, and its tasks of the
// hanging database when that answers again.
func TestTasksOfAKilledNodeRunAgainThoughOneOfItsDatabasesHangs(t *testing.T) {
	t.Parallel()
	hangs := own(t)
	main, other := tables(t), tablesOn(t, hangs)
	g := newGate(t)
	journal := filepath.Join(t.TempDir(), "journal")
	file := write(t, "taskengine.yaml", fmt.Sprintf(awayConfig, onSeveral(main, map[string]string{"other": other}), string(g), journal))
	succeeds(t, "shards", "divide", "-c", file)
	killed := nodeOf(t, file, 0)
	ids := killed.submitInto(t, 0, 128)
	held := func(database string, attempt int) {
		t.Helper()
		const sql = "select count(*) from taskengine.tasks where state = 'processing' and attempt = %d"
		for begin := time.Now(); query(t, database, fmt.Sprintf(sql, attempt)) != fmt.Sprint(eachHalf); time.Sleep(askEvery) {
			if time.Since(begin) > limit {
				t.Fatalf("the tasks of %s do not run for the %d. time", database, attempt)
			}
		}
	}
	held(main, 1)
	held(other, 1)
	left := nodeOf(t, file, 1)

	if err := hangs.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hangs.Resume() })
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.ended
	held(main, 2)
	for id, times := range noted(t, journal) {
		if isOther := parsed(t, id).Shard() >= 128; isOther && times != 1 || !isOther && times > 2 {
			t.Errorf("while one database hangs, task %s has run %d times; in that database: %v", id, times, isOther)
		}
	}
	if err := hangs.Resume(); err != nil {
		t.Fatal(err)
	}
	held(other, 2)

	more := left.submitInto(t, 0, 128)
	g.open(t)
	left.ok(t, append([]string{"task", "wait", "--timeout", "2m"}, append(ids, more...)...)...)
	runs := noted(t, journal)
	for i, id := range append(ids, more...) {
		want, got := 1, left.objects(t, "task", "get", id)[0]
		if i < len(ids) {
			want = 2
		}
		if got["state"] != "done" || got["attempt"] != float64(want) || runs[id] != want {
			t.Errorf("task %s has run %d times, want %d: %v", id, runs[id], want, got)
		}
	}
	left.signal(t, syscall.SIGTERM)
	if code := left.exit(t); code != exitOK {
		t.Errorf("the node ended with %d", code)
	}
}

// submitInto adds some tasks of type hold to the databases of some shards, and returns their ids.
func (n *running) submitInto(t *testing.T, shards ...uint16) (ids []string) {
	t.Helper()
	next, q := task.NewIDs([32]byte{byte(time.Now().UnixNano())}), &taskenginev1.SubmitRequest{}
	for _, shard := range shards {
		for i := range uint16(eachHalf) {
			id := next.NextIn(time.Now(), shard+i*20).String()
			ids = append(ids, id)
			q.Tasks = append(q.Tasks, &taskenginev1.NewTask{Id: id, Type: "hold"})
		}
	}
	client := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+n.api)
	if _, err := client.Submit(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	return ids
}

func parsed(t *testing.T, id string) task.ID {
	t.Helper()
	out, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// noted returns how often each id is in a journal.
func noted(t *testing.T, journal string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for id := range strings.FieldsSeq(string(text)) {
		times[id]++
	}
	return times
}
