package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const (
	kills  = 20 // how often a node is killed
	fewest = 10 // tasks that are accepted for each of them
)

// killConfig makes a node with handlers that note the task of every call, as a line
// in a file: a write of that size either happens or does not. Handlers of the type later note
// when they begin and end, too, and for which node.
const killConfig = `
node: {slots: 16}
storage: %[1]s
handlers:
  note: {exec: [sh, -c, 'echo "$TASKENGINE_TYPE $TASKENGINE_TASK_ID" >> "$JOURNAL"'], env: {JOURNAL: %[2]q}}
  span:
    exec:
      - sh
      - -c
      - trap 'echo "-1 $PPID" >> "$JOURNAL.spans"' EXIT; trap exit TERM;
        echo "+1 $PPID" >> "$JOURNAL.spans"; echo "$TASKENGINE_TYPE $TASKENGINE_TASK_ID" >> "$JOURNAL"
    env: {JOURNAL: %[2]q}
types:
  least: {handler: note, max_crashes: 0, retry: {max: 100, backoff: none}, ordering: {inherit: true}}
  later: {handler: span, concurrency: 3, max_crashes: 0, retry: {max: 100, backoff: none}}
  most: {handler: note, delivery: at_most_once}
`

func TestANodeThatIsKilledAgainAndAgainLosesNothingItAccepted(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			journal := filepath.Join(folder, "journal")
			file := filepath.Join(folder, "taskengine.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, killConfig, storageOf(t, driver), journal), 0o600); err != nil {
				t.Fatal(err)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			all := newAccepted()
			for i := range kills {
				n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
				load := submitUntilKilled(n, rng.Uint64(), 0)
				time.Sleep(time.Duration(50+rng.IntN(350)) * time.Millisecond) // any moment is the right one
				load.awaitAccepted(t, fewest*(i+1)-len(all.types))
				if err := n.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-n.ended
				load.wait()
				all.add(load.acknowledged)
			}
			n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
			for _, typ := range []string{"least", "later", "most"} {
				if got := cli(t, nil, "", "--address", n.api, "task", "wait", "--type", typ, "--timeout", "50s"); got.code != 0 {
					t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
				}
			}
			verifyKilled(t, n, all.types, readJournal(t, journal))
			verifyTurns(t, all.keys, journal)
			verifyLimit(t, journal+".spans", 3)
		})
	}
}

// load submits tasks to a node until that is gone.
type load struct {
	client       taskenginev1connect.TaskServiceClient
	ended        <-chan struct{} // closed when the node is gone
	wg           sync.WaitGroup
	mu           sync.Mutex
	acknowledged accepted      // guarded by mu until wait has returned
	over         bool          // guarded by mu: it is to end though the node is there
	pace         time.Duration // between two requests of one submitter
}

// stop ends the load.
func (l *load) stop() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.wg.Wait()
}

func submitUntilKilled(n *running, seed uint64, pace time.Duration) *load {
	l := &load{
		pace:         pace,
		client:       taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+n.api),
		acknowledged: newAccepted(), ended: n.ended,
	}
	for i := range uint64(3) {
		l.wg.Go(func() {
			rng, key := rand.New(rand.NewPCG(seed, i)), fmt.Sprint("key ", seed, " ", i)
			for l.submit(rng, key) {
				time.Sleep(l.pace)
			}
		})
	}
	return l
}

func (l *load) wait() { l.wg.Wait() }

// accepted returns how many tasks were accepted so far.
func (l *load) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged.types)
}

// awaitAccepted waits until so many tasks were accepted. On a slow machine a node may need long for the first.
func (l *load) awaitAccepted(t *testing.T, tasks int) {
	t.Helper()
	for begin := time.Now(); l.accepted() < tasks; time.Sleep(time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("%d tasks were accepted, want %d", l.accepted(), tasks)
		}
	}
}

// accepted has the tasks that a node has accepted.
type accepted struct {
	types map[string]string // of tasks, by id
	keys  map[string]string // ordering keys of some, by id; tasks of a key were submitted one after the other
}

func newAccepted() accepted { return accepted{make(map[string]string), make(map[string]string)} }

func (a *accepted) add(more accepted) {
	maps.Copy(a.types, more.types)
	maps.Copy(a.keys, more.keys)
}

// submit adds a few tasks, some of them with an ordering key unless it is "", and reports whether the node is there still.
func (l *load) submit(rng *rand.Rand, key string) bool {
	req := &taskenginev1.SubmitRequest{}
	for range 1 + rng.IntN(8) {
		task := &taskenginev1.NewTask{Type: []string{"least", "later", "most"}[rng.IntN(3)]}
		switch {
		case task.Type == "later":
			task.In = durationpb.New(time.Duration(rng.IntN(2000)) * time.Millisecond)
		case task.Type == "least" && rng.IntN(2) == 0:
			priority := uint32(rng.IntN(10))
			task.OrderingKey, task.Priority = key, &priority
		}
		req.Tasks = append(req.Tasks, task)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	res, err := l.client.Submit(ctx, req)
	if err != nil {
		select {
		case <-l.ended:
			return false
		case <-time.After(10 * time.Millisecond): // the fault may pass
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range res.GetReceipts() {
		l.acknowledged.types[r.GetId()] = req.GetTasks()[i].GetType()
		if key := req.GetTasks()[i].GetOrderingKey(); key != "" {
			l.acknowledged.keys[r.GetId()] = key
		}
	}
	return !l.over
}

// readJournal returns how often each task was run.
func readJournal(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runs := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		runs[strings.TrimSpace(line)]++
	}
	return runs
}

// verifyTurns looks that the tasks of each ordering key ran for the first time in the order of their submits, which is
// that of their ids.
func verifyTurns(t *testing.T, keys map[string]string, journal string) {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	ran, last := make(map[string]bool), make(map[string]string) // by id; by key
	for line := range strings.Lines(string(text)) {
		_, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		key := keys[id]
		if key == "" || ran[id] {
			continue
		}
		if ran[id] = true; id < last[key] {
			t.Errorf("task %s of %s ran after %s", id, key, last[key])
		}
		last[key] = id
	}
	if len(ran) != len(keys) || len(ran) == 0 {
		t.Errorf("%d tasks with ordering keys ran, of %d", len(ran), len(keys))
	}
	t.Logf("%d tasks of %d ordering keys ran in order", len(ran), len(last))
}

// verifyLimit reads the begins and ends of tasks, by node, and checks that never more ran on one than
// its limit allows.
func verifyLimit(t *testing.T, file string, limit int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	running, most := make(map[string]int), 0
	for line := range strings.Lines(string(text)) {
		change, node, _ := strings.Cut(strings.TrimSpace(line), " ")
		if change == "+1" {
			running[node]++
		} else {
			running[node]--
		}
		most = max(most, running[node])
	}
	if most > limit || most == 0 {
		t.Errorf("up to %d of a type ran at once on a node, of %d allowed", most, limit)
	}
}

// verifyKilled compares the store, and the notes of the handlers, with the accepted tasks.
func verifyKilled(t *testing.T, n *running, acknowledged map[string]string, runs map[string]int) {
	t.Helper()
	client := taskenginev1connect.NewTaskServiceClient(http.DefaultClient, "http://"+n.api)
	defer http.DefaultClient.CloseIdleConnections()
	done, errors, again := 0, 0, 0
	for id, typ := range acknowledged {
		res, err := client.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil {
			t.Errorf("task %s of type %s was accepted and is not there: %v", id, typ, err)
			continue
		}
		switch state := res.GetTask().GetState(); {
		case state == "done" && runs[typ+" "+id] > 0:
			done++
		case state == "error" && typ == "most":
			errors++
		default:
			t.Errorf("task %s of type %s is %s after %d runs: %s", id, typ, state, runs[typ+" "+id], res.GetTask().GetError())
		}
	}
	for run, times := range runs {
		if times > 1 {
			again++
			if strings.HasPrefix(run, "most ") {
				t.Errorf("%s ran %d times", run, times)
			}
		}
	}
	if len(acknowledged) < fewest*kills {
		t.Errorf("only %d tasks were accepted: the load was none", len(acknowledged))
	}
	t.Logf("%d accepted tasks: %d done, %d errors by at_most_once; %d ran more than once", len(acknowledged), done, errors, again)
}
