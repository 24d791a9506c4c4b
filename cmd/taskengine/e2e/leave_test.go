//go:build !race

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const leaveConfig = `
storage: %[1]s
handlers:
  program: {plugin: [%[2]q], env: {%[3]s: plugin, JOURNAL: %[4]q}, slots: 8}
  nothing: {exec: [/bin/true]}
types:
  leaver: {handler: program, max_crashes: 0, retry: {max: 100, backoff: none}}
  child: {handler: nothing, max_crashes: 0, retry: {max: 100, backoff: none}}
`

// Each task adds one with an ordering key, mostly for another shard or database, and without a key.
func TestChildrenOfAnotherDatabaseArriveOnceThoughTheirNodeIsKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	storage := onSeveral(databases(t).Database(t), map[string]string{"other": databases(t).Database(t)})
	file := write(t, "taskengine.yaml", fmt.Sprintf(leaveConfig, storage, self, role, filepath.Join(t.TempDir(), "journal")))
	succeeds(t, "migrate", "apply", "-c", file)
	succeeds(t, "shards", "divide", "-c", file)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const rounds, each = 6, 40
	for range rounds {
		n := start(t, nil, "run", "-c", file)
		client := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+n.api)
		req := &taskenginev1.SubmitRequest{}
		for range each {
			req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: "leaver"})
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := client.Submit(ctx, req)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond) // any moment is the right one
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
	}
	n := start(t, nil, "run", "-c", file)
	for _, typ := range []string{"leaver", "taskengine.relay", "child"} {
		if got := cli(t, nil, "", "--address", n.api, "task", "wait", "--type", typ, "--timeout", "2m"); got.code != 0 {
			t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	verifyChildren(t, n, "leaver")
	if got := len(n.objects(t, "task", "list", "--type", "child", "--state", "done", "--all")); got != rounds*each {
		t.Errorf("%d children of %d parents are done", got, rounds*each)
	}
}
