package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

const afterConfig = `
node: {slots: 16}
storage: %s
handlers:
  ok: {exec: ["true"]}
  bad: {exec: ["false"]}
types:
  first: {handler: ok, max_crashes: 0, retry: {max: 100, backoff: none}}
  failing: {handler: bad, max_crashes: 0, retry: {max: 1, then: failed}}
  late: {handler: ok, max_crashes: 0, retry: {max: 100, backoff: none}}
`

// followers are tasks that run after others, as a node has accepted them.
type followers struct {
	client taskenginev1connect.TaskServiceClient
	ended  <-chan struct{} // closed when the node is gone
	ids    *task.IDs
	mu     sync.Mutex
	all    map[string]*taskenginev1.NewTask // guarded by mu
}

// submit submits some tasks and one that runs after them. It returns false when the node is gone.
func (f *followers) submit(rng *rand.Rand) bool {
	var after []string
	for range 1 + rng.IntN(3) {
		t := &taskenginev1.NewTask{Id: f.ids.Next(time.Now()).String(), Type: []string{"first", "first", "failing"}[rng.IntN(3)]}
		if !f.send(t) {
			return false
		}
		after = append(after, t.GetId())
	}
	t := &taskenginev1.NewTask{Id: f.ids.Next(time.Now()).String(), Type: "late", After: after, AfterAny: rng.IntN(3) == 0}
	if !f.send(t) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[t.GetId()] = t
	return true
}

func (f *followers) send(t *taskenginev1.NewTask) bool {
	for {
		_, err := f.client.Submit(context.Background(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{t}})
		if err == nil {
			return true
		}
		select {
		case <-f.ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (f *followers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// Tasks are submitted to run after others that end meanwhile, and the node is killed again and again. In the end each of them has ended as the others say.
func TestTasksRunAfterOthersThoughTheNodeIsKilled(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "taskengine.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, afterConfig, storageOf(t, driver)), 0o600); err != nil {
				t.Fatal(err)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			f := &followers{ids: task.NewIDs([32]byte{byte(seed)}), all: make(map[string]*taskenginev1.NewTask)}
			for i := range 6 {
				n := start(t, withPath(), "run", "-c", file)
				f.client, f.ended = taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+n.api), n.ended
				var load sync.WaitGroup
				for k := range uint64(3) {
					mine := rand.New(rand.NewPCG(seed, uint64(i)<<8+k))
					load.Go(func() {
						for f.submit(mine) {
						}
					})
				}
				for f.count() < 15*(i+1) {
					select {
					case <-n.ended:
						t.Fatal("the node has ended by itself")
					case <-time.After(time.Duration(1+rng.IntN(20)) * time.Millisecond):
					}
				}
				if err := n.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-n.ended
				load.Wait()
			}
			n := start(t, withPath(), "run", "-c", file)
			f.client = taskenginev1connect.NewTaskServiceClient(http.DefaultClient, "http://"+n.api)
			for _, typ := range []string{"first", "failing", "late"} {
				if got := cli(t, nil, "", "--address", n.api, "task", "wait", "--type", typ, "--timeout", "5m"); got.code != 0 {
					t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
				}
			}
			f.verify(t)
		})
	}
}

func (f *followers) verify(t *testing.T) {
	ended := make(map[string]int)
	for id, request := range f.all {
		want := "done"
		for _, before := range request.GetAfter() {
			if f.state(t, before) != "done" && !request.GetAfterAny() {
				want = "cancelled"
			}
		}
		got := f.state(t, id)
		if ended[got]++; got != want {
			t.Errorf("task %s is %s, and is to be %s", id, got, want)
		}
	}
	t.Logf("the followers are %v", ended)
}

func (f *followers) state(t *testing.T, id string) string {
	t.Helper()
	res, err := f.client.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if err != nil {
		t.Fatalf("get %s: %v (%v)", id, err, connect.CodeOf(err))
	}
	return res.GetTask().GetState()
}
