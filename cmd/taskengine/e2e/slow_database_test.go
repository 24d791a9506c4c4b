//go:build !race

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// stoppedFor is how long a database does not answer: for three times as long as a node waits for an answer.
const stoppedFor = 30 * time.Second

// slowConfig makes a node with few slots. Its handler notes when tasks begin; tasks of the type bulk
// run one by one, and slowly until the gate is open.
const slowConfig = `
node: {slots: 4, drain_timeout: 50s}
storage: %s
handlers:
  stamp: {plugin: [%q], env: {%s: plugin, STAMPS: %q, GATE: %q}, slots: 4, processes: {min: 1, max: 1}}
types:
  ping: {handler: stamp, priority: 3}
  bulk: {handler: stamp, priority: 7, concurrency: 1}
`

// twoDatabases is a node over two databases, one of which stops, and the submitters to both.
type twoDatabases struct {
	*running
	t      *testing.T
	client taskenginev1connect.TaskServiceClient
	ids    *task.IDs
	wg     sync.WaitGroup

	mu     sync.Mutex
	asked  map[string]time.Time // guarded by mu: when the task of that id was submitted
	isLive map[string]bool      // guarded by mu: whether it is of the database that does not stop
	known  map[string]bool      // guarded by mu: it was accepted
}

// submit submits tasks to one of the databases.
func (d *twoDatabases) submit(patience time.Duration, typ string, n int, isLive bool) error {
	req := &taskenginev1.SubmitRequest{}
	d.mu.Lock()
	now := time.Now()
	for i := range n {
		shard := uint16(i % 128)
		if !isLive {
			shard += 128
		}
		id := d.ids.NextIn(now, shard).String()
		d.asked[id], d.isLive[id] = now, isLive
		req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Id: id, Type: typ})
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := d.client.Submit(ctx, req)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range req.Tasks {
		d.known[t.Id] = true
	}
	return nil
}

// load submits tasks to both databases until stop is closed. Those of the one that stops may be
// refused.
func (d *twoDatabases) load(stop <-chan struct{}) {
	every := func(pause time.Duration, fn func()) {
		d.wg.Go(func() {
			for tick := time.NewTicker(pause); ; {
				select {
				case <-stop:
					return
				case <-tick.C:
					fn()
				}
			}
		})
	}
	every(20*time.Millisecond, func() {
		if err := d.submit(limit, "ping", 1, true); err != nil {
			d.t.Errorf("a task of the database that answers is refused: %v", err)
		}
	})
	room := make(chan struct{}, 50)
	every(50*time.Millisecond, func() {
		select {
		case room <- struct{}{}:
			d.wg.Go(func() {
				_ = d.submit(limit, "ping", 1, false)
				<-room
			})
		default:
		}
	})
}

func TestADatabaseThatHangsDelaysItsOwnTasksOnly(t *testing.T) {
	t.Parallel()
	hangs := own(t)
	d, stamps, g := startOnTwo(t, tables(t), tablesOn(t, hangs))
	for range 6 { // a node has a thousand of them in memory
		for _, isLive := range []bool{true, true, true, false} {
			if err := d.submit(limit, "bulk", 250, isLive); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := make(chan struct{})
	d.load(stop)
	time.Sleep(10 * time.Second)
	stopped := time.Now()
	if err := hangs.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hangs.Resume() })
	time.Sleep(stoppedFor / 2)
	d.why()
	time.Sleep(time.Until(stopped.Add(stoppedFor)))
	resumed := time.Now()
	if err := hangs.Resume(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	close(stop)
	g.open(t)
	d.wg.Wait()
	for _, typ := range []string{"ping", "bulk"} {
		got := result{code: -1}
		for range 10 { // a slow machine takes long for thousands of tasks, one by one
			if got = cli(t, nil, "", "--address", d.api, "task", "wait", "--type", typ, "--timeout", "2m"); got.code == 0 {
				break
			}
		}
		if got.code != 0 {
			t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	begun := stamps.read(t)
	d.once(begun)
	d.delays(begun, stopped, resumed)
	d.progress(begun, stopped, resumed)
}

// why checks that the node says why tasks of the database that hangs are not started.
func (d *twoDatabases) why() {
	d.mu.Lock()
	var one string
	for id := range d.known {
		if !d.isLive[id] {
			one = id
			break
		}
	}
	d.mu.Unlock()
	asked := time.Now()
	got := d.cli(d.t, "task", "why", one)
	d.t.Logf("task why ends with %d after %v: %s%s", got.code, time.Since(asked), got.stdout, got.stderr)
	if !strings.Contains(got.stdout+got.stderr, "does not answer: none of its tasks is started until it does") {
		d.t.Errorf("task why says %s%s", got.stdout, got.stderr)
	}
}

// startOnTwo starts a node over two databases, the first of which does not stop.
func startOnTwo(t *testing.T, main, other string) (d *twoDatabases, stamps stamper, g gate) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stamps, g = stamper(filepath.Join(t.TempDir(), "stamps")), newGate(t)
	storage := onSeveral(main, map[string]string{"other": other})
	file := write(t, "taskengine.yaml", fmt.Sprintf(slowConfig, storage, self, role, string(stamps), string(g)))
	succeeds(t, "shards", "divide", "-c", file)
	d = &twoDatabases{
		running: start(t, nil, "run", "-c", file), t: t, ids: task.NewIDs([32]byte{1}),
		asked: make(map[string]time.Time), isLive: make(map[string]bool), known: make(map[string]bool),
	}
	d.client = taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+d.api)
	return d, stamps, g
}

// once checks that each task that was accepted has run once, and each other one at most once.
func (d *twoDatabases) once(begun []beginning) {
	runs := make(map[string]int)
	for _, b := range begun {
		runs[b.id]++
	}
	accepted := make(map[bool]int)
	for id := range d.asked {
		if d.known[id] {
			accepted[d.isLive[id]]++
		}
		if n := runs[id]; n > 1 || n == 0 && d.known[id] {
			d.t.Errorf("task %s has run %d times (accepted: %v, of the database that answers: %v)", id, n, d.known[id], d.isLive[id])
		}
	}
	d.t.Logf("%d tasks of the database that answers and %d of the other were accepted", accepted[true], accepted[false])
}

// settling is the time after the stop within which the tasks of the other database may be delayed.
const settling = 2 * time.Second

// delays compares how long the tasks of the other database wait for their start.
func (d *twoDatabases) delays(begun []beginning, stopped, resumed time.Time) {
	var before, meanwhile []time.Duration
	for _, b := range begun {
		asked := d.asked[b.id]
		switch {
		case b.typ != "ping" || !d.isLive[b.id]:
		case asked.Before(stopped.Add(-settling)):
			before = append(before, b.at.Sub(asked))
		case asked.After(stopped.Add(settling)) && asked.Before(resumed):
			meanwhile = append(meanwhile, b.at.Sub(asked))
		}
	}
	if len(before) == 0 || len(meanwhile) == 0 {
		d.t.Fatalf("%d tasks before, and %d meanwhile", len(before), len(meanwhile))
	}
	for _, percent := range []int{50, 95} {
		was, is := percentile(before, percent), percentile(meanwhile, percent)
		d.t.Logf("%d %% of the tasks began within %v before and %v meanwhile (%d and %d tasks)", percent, was, is, len(before), len(meanwhile))
		if is > max(10*was, 2*time.Second) {
			d.t.Errorf("%d %% of the tasks began within %v before, and within %v while the other database hangs", percent, was, is)
		}
	}
	d.t.Logf("the longest took %v before and %v meanwhile", slices.Max(before), slices.Max(meanwhile))
}

// progress checks that tasks began all the time that are in the database only when it stops: there
// are more of them than memory holds.
func (d *twoDatabases) progress(begun []beginning, stopped, resumed time.Time) {
	const window = 10 * time.Second
	begins := make([]int, stoppedFor/window)
	last := stopped // when the last of them began
	for _, b := range begun {
		if b.typ != "bulk" || !d.isLive[b.id] || b.at.Before(stopped) {
			continue
		}
		if i := int(b.at.Sub(stopped) / window); i < len(begins) {
			begins[i]++
		}
		if b.at.After(last) {
			last = b.at
		}
	}
	d.t.Logf("of the backlog began, in each %v: %v", window, begins)
	for i, n := range begins {
		if at := stopped.Add(time.Duration(i) * window); n == 0 && at.Before(last) && at.Add(window).Before(resumed) {
			d.t.Errorf("no task of the backlog began from %v to %v after the stop", time.Duration(i)*window, time.Duration(i+1)*window)
		}
	}
}
