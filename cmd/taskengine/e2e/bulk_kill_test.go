//go:build !race

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const bulkTasks = 2500 // of each type; three plans of a job

// bulkConfig configures two types. All of their tasks end in the state error.
const bulkConfig = `
storage: %s
coordination: {lease: 1s}
handlers:
  bank: {plugin: [%q], env: {%s: plugin, BANK: "yes"}}
types:
  refused: {handler: bank, max_crashes: 0}
  pending: {handler: bank, max_crashes: 0}
`

// changing is a cluster. Its nodes are killed in the middle of bulk jobs.
type changing struct {
	nodes []*running
	start func(node int) *running
	web   *http.Client
	ids   map[string][]string // of tasks, by type, in the order of their ids
}

// api returns the API of a node.
func (c *changing) api(node int) taskenginev1connect.TaskServiceClient {
	return taskenginev1connect.NewTaskServiceClient(c.web, "http://"+c.nodes[node].api)
}

// TestEachTaskIsChangedOnceByABulkJobThoughItsNodeIsKilled kills the node of a job when the job has changed a random task: in the middle of
// a plan. One job resumes tasks, which fail again and match again. Another one changes
// priorities, and the last one erases these tasks.
func TestEachTaskIsChangedOnceByABulkJobThoughItsNodeIsKilled(t *testing.T) {
	t.Parallel()
	for driver, nodes := range map[string]int{"pebble": 1, "postgres": 2} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := newChanging(t, driver, nodes)
			refused, pending := c.witness(t, "refused"), c.witness(t, "pending")
			c.order(t, "again", &taskenginev1.BulkOrder{Verb: "resume", Where: "type=refused error~503"})
			c.kill(t, "again", refused)
			c.order(t, "sooner", &taskenginev1.BulkOrder{Verb: "set", Where: "type=pending", Values: &taskenginev1.TaskValues{Priority: new(uint32(1))}})
			c.kill(t, "sooner", pending)
			again, sooner := c.end(t, "again"), c.end(t, "sooner")
			if again.GetChanged() != bulkTasks || again.GetUnclear()+again.GetSkipped()+again.GetRefused() != 0 {
				t.Errorf("the counts of the job that resumes are %v", again)
			}
			if sooner.GetChanged() != bulkTasks || sooner.GetUnclear()+sooner.GetSkipped()+sooner.GetRefused() != 0 {
				t.Errorf("the counts of the job that sets are %v", sooner)
			}
			c.await(t, "refused")
			c.verify(t, "refused", 2, 1)
			c.verify(t, "pending", 1, 1)
			witness := c.witness(t, "pending")
			c.order(t, "erase", &taskenginev1.BulkOrder{Verb: "erase", Where: `type=pending payload.email="anna@example.org"`})
			c.kill(t, "erase", witness)
			erased := c.end(t, "erase")
			if erased.GetChanged() != bulkTasks || erased.GetUnclear()+erased.GetSkipped()+erased.GetRefused() != 0 || strings.Contains(erased.GetWhere(), "anna") {
				t.Errorf("the job that erases is %v", erased)
			}
			c.verifyErased(t, "pending")
		})
	}
}

func newChanging(t *testing.T, driver string, nodes int) *changing {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "taskengine.yaml", fmt.Sprintf(bulkConfig, storageOf(t, driver), self, role))
	c := &changing{ids: make(map[string][]string), web: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(c.web.CloseIdleConnections)
	c.start = func(i int) *running { return nodeOf(t, file, i) }
	for i := range nodes {
		c.nodes = append(c.nodes, c.start(i))
	}
	for _, typ := range []string{"refused", "pending"} {
		for len(c.ids[typ]) < bulkTasks {
			req := new(taskenginev1.SubmitRequest)
			for range 500 {
				req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: typ, Input: &taskenginev1.NewTask_Text{Text: `{"email":"anna@example.org"}`}, Headers: map[string]string{"email": "anna@example.org"}})
			}
			res, err := c.api(0).Submit(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.GetReceipts() {
				c.ids[typ] = append(c.ids[typ], r.GetId())
			}
		}
		c.await(t, typ)
	}
	return c
}

// await waits until all tasks of a type have ended.
func (c *changing) await(t *testing.T, typ string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(20 * time.Millisecond) {
		res, err := c.api(0).Count(t.Context(), &taskenginev1.CountRequest{Types: []string{typ}})
		if err == nil && len(res.GetCounts()) == 1 && res.GetCounts()[0].GetState() == "error" && res.GetCounts()[0].GetCount() == bulkTasks {
			return
		}
	}
	t.Fatalf("tasks of type %s do not end: %s", typ, c.nodes[0].ok(t, "task", "count"))
}

// order starts a job.
func (c *changing) order(t *testing.T, name string, o *taskenginev1.BulkOrder) {
	t.Helper()
	if _, err := c.api(len(c.nodes)-1).StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Name: name, Order: o}); err != nil {
		t.Fatal(err)
	}
}

// witness returns a random task of a type, neither one of the first nor of the last.
func (c *changing) witness(t *testing.T, typ string) *taskenginev1.Task {
	t.Helper()
	res, err := c.api(0).Get(t.Context(), &taskenginev1.GetRequest{Id: c.ids[typ][rand.IntN(bulkTasks*4/5)+bulkTasks/10]})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetTask()
}

// kill waits until a job has changed a task, kills the node that runs the job, and starts it again.
func (c *changing) kill(t *testing.T, job string, witness *taskenginev1.Task) {
	t.Helper()
	api := c.api(0)
	for begin := time.Now(); ; {
		res, err := api.Get(t.Context(), &taskenginev1.GetRequest{Id: witness.GetId()})
		if err != nil || time.Since(begin) > limit {
			t.Fatalf("task %s is not changed: %v", witness.GetId(), err)
		}
		if res.GetTask().GetVersion() > witness.GetVersion() {
			break
		}
		time.Sleep(time.Millisecond) // a plan takes many
	}
	victim := 0
	if len(c.nodes) > 1 {
		j, err := api.GetBulkJob(t.Context(), &taskenginev1.GetBulkJobRequest{Name: job})
		if err != nil {
			t.Fatal(err)
		}
		own, err := api.Get(t.Context(), &taskenginev1.GetRequest{Id: j.GetJob().GetTaskId()})
		if err != nil {
			t.Fatal(err)
		}
		if own.GetTask().GetNode() == "n1" {
			victim = 1
		}
	}
	n := c.nodes[victim]
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	c.nodes[victim] = c.start(victim)
	t.Logf("node %d was killed when %s had changed %s", victim, job, witness.GetId())
}

// end waits for the end of a job.
func (c *changing) end(t *testing.T, name string) *taskenginev1.BulkJob {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(20 * time.Millisecond) {
		res, err := c.api(0).GetBulkJob(t.Context(), &taskenginev1.GetBulkJobRequest{Name: name})
		if err == nil && res.GetJob().GetPhase() == "done" {
			return res.GetJob()
		}
	}
	t.Fatalf("the job %s does not end: %s", name, c.nodes[0].ok(t, "bulk", "show", name))
	return nil
}

// verify checks in the history of each task of a type how often it has failed, and how often its values were changed. An attempt
// that crashed with its node is neither.
func (c *changing) verify(t *testing.T, typ string, errored, edited int) {
	t.Helper()
	seen, wrong := 0, 0
	for req := (&taskenginev1.ListRequest{Types: []string{typ}, Limit: 1000}); ; {
		res, err := c.api(0).List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range res.GetTasks() {
			seen++
			outcomes := make(map[string]int)
			for _, a := range one.GetHistory() {
				outcomes[a.GetOutcome()]++
			}
			if outcomes["errored"] != errored || outcomes["edited"] != edited || one.GetState() != "error" || (one.GetPriority() == 1) != (typ == "pending") {
				if wrong++; wrong < 5 {
					t.Errorf("the task is %v", one)
				}
			}
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if seen != bulkTasks || wrong > 0 {
		t.Errorf("of %d tasks of type %s, %d have another history", seen, typ, wrong)
	}
}

// verifyErased checks that each task of a type was erased once and has no content.
func (c *changing) verifyErased(t *testing.T, typ string) {
	t.Helper()
	for _, id := range c.ids[typ] {
		res, err := c.api(0).Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		one, receipts := res.GetTask(), 0
		for _, a := range one.GetHistory() {
			if a.GetOutcome() == "erased" && a.GetJob() == "erase" {
				receipts++
			}
		}
		if receipts != 1 || one.GetState() != "failed" || strings.Contains(fmt.Sprintf("%v %s", one, one.GetPayload()), "anna") {
			t.Fatalf("the task is %v", one)
		}
	}
}
