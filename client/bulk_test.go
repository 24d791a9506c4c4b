package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// newBulk returns a client of a node with bulk jobs, and tasks there that are in error.
func newBulk(t *testing.T, failed int) (*client.Client, []task.ID) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Name: "n1",
		Policies: policy.Set{Slots: 8, Types: map[string]policy.Type{"pay": policy.DefaultType(), bulk.Type: jobs.TypePolicy()}},
		Handlers: map[string]task.Handler{
			bulk.Type: jobs.Handler(jobs.Config{}),
			"pay": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				return nil, task.Permanent(errors.New("bank 7 answered 503"))
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx)
	})
	address, _ := tasks{engine: e}.serve(t)
	c := open(t, client.Options{}, address)
	ids := make([]task.ID, failed)
	for i := range ids {
		r, err := c.Submit(t.Context(), "pay", map[string]int{"n": i})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = r.ID
		if _, err := c.Wait(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	return c, ids
}

func bulkEnd(t *testing.T, c *client.Client, name string) *client.BulkJob {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(time.Millisecond) {
		j, err := c.BulkJob(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if j.HasEnded() {
			return j
		}
	}
	t.Fatalf("the job %s does not end", name)
	return nil
}

func TestTasksAreChangedByBulkJobs(t *testing.T) {
	c, ids := newBulk(t, 4)
	order := client.BulkOrder{
		Verb: client.BulkSet, Where: client.WhereIDs(ids[0], ids[2]), Types: []string{"pay"},
		Values: &client.TaskValues{Priority: new(uint8(1)), Payload: new([]byte(`{}`)), Headers: map[string]string{"fixed": "yes"}},
	}
	p, err := c.PreviewBulkJob(t.Context(), order)
	if err != nil || p.Tasks != 2 || !p.Complete || p.Read != 2 || p.Index != "id" || p.Total != 0 || p.States["error"] != 2 || len(p.Kinds) != 1 || p.Kinds[0].Tasks != 2 || len(p.Samples) != 2 || p.Samples[0].ID != ids[2] {
		t.Fatalf("the preview is %+v, %v", p, err)
	}
	for range 2 { // the second call starts no second job
		if j, err := c.StartBulkJob(t.Context(), order, client.BulkStart{Name: "mend", By: "anna"}); err != nil || j.Name != "mend" || j.Total != 2 || j.Verb != client.BulkSet {
			t.Fatalf("the job is %+v, %v", j, err)
		}
	}
	if j := bulkEnd(t, c, "mend"); j.Phase != client.BulkDone || j.Changed != 2 || !strings.Contains(j.By, "anna") || len(j.History) != 1 || j.TaskID.IsZero() {
		t.Errorf("the job is %+v", j)
	}
	got, err := c.Get(t.Context(), ids[0])
	if err != nil || got.Priority != 1 || string(got.Payload) != `{}` || got.Headers["fixed"] != "yes" || got.State != client.StateError {
		t.Errorf("the task is %+v, %v", got, err)
	}
	var names []string
	for j, err := range c.BulkJobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, j.Name)
	}
	if len(names) != 1 || names[0] != "mend" {
		t.Errorf("the jobs are %v", names)
	}
	if _, err := c.StartBulkJob(t.Context(), client.BulkOrder{Verb: client.BulkResume}, client.BulkStart{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("without a filter: %v", err)
	}
	if _, err := c.BulkJob(t.Context(), "none"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
}

func TestABulkJobIsUndone(t *testing.T) {
	c, ids := newBulk(t, 3)
	if _, err := c.StartBulkJob(t.Context(), client.BulkOrder{Verb: client.BulkFail, Where: "type=pay", Reason: "by mistake"}, client.BulkStart{Name: "slip"}); err != nil {
		t.Fatal(err)
	}
	bulkEnd(t, c, "slip")
	if _, err := c.Resume(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	undo := client.BulkOrder{Verb: client.BulkUndo, Job: "slip"}
	p, err := c.PreviewBulkJob(t.Context(), undo)
	if err != nil || p.Tasks != 2 || len(p.Left) != 1 {
		t.Fatalf("the preview is %+v, %v", p, err)
	}
	if _, err := c.StartBulkJob(t.Context(), undo, client.BulkStart{Name: "mend"}); err != nil {
		t.Fatal(err)
	}
	if j := bulkEnd(t, c, "mend"); j.Undoes != "slip" || j.Changed != 2 || j.Skipped != 1 {
		t.Errorf("the job is %+v", j)
	}
	if got, err := c.Get(t.Context(), ids[2]); err != nil || got.State != client.StateError || got.Error != "bank 7 answered 503" {
		t.Errorf("the task is %+v, %v", got, err)
	}
}

func TestABulkJobTakesOrders(t *testing.T) {
	c, _ := newBulk(t, 3)
	order := client.BulkOrder{Verb: client.BulkCancel, Where: "type=pay", Reason: "by mistake"}
	j, err := c.StartBulkJob(t.Context(), order, client.BulkStart{Rate: 0.001}) // one task now, and the next in a quarter of an hour
	if err != nil {
		t.Fatal(err)
	}
	if j, err = c.PauseBulkJob(t.Context(), j.Name, "bert", "too fast"); err != nil || j.Phase != client.BulkPaused {
		t.Fatalf("the job is %+v, %v", j, err)
	}
	if j, err = c.SetBulkJobRate(t.Context(), j.Name, 0, "bert"); err != nil || j.Rate != 0 {
		t.Fatalf("the job is %+v, %v", j, err)
	}
	if _, err = c.ContinueBulkJob(t.Context(), j.Name, "bert", ""); err != nil {
		t.Fatal(err)
	}
	if j = bulkEnd(t, c, j.Name); j.Changed != 3 || len(j.History) != 4 || j.History[1].Reason != "too fast" {
		t.Errorf("the job is %+v", j)
	}
	if _, err = c.StopBulkJob(t.Context(), j.Name, "", ""); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("a job that has ended was stopped: %v", err)
	}
}

func TestValuesOfATaskAreSetAndItIsDeleted(t *testing.T) {
	c, ids := newBulk(t, 1)
	v := client.TaskValues{Headers: map[string]string{"a": "1"}}
	got, err := c.Set(t.Context(), ids[0], v, "anna")
	if err != nil || got.Headers["a"] != "1" || len(got.History) != 2 || got.History[1].Outcome != client.AttemptEdited {
		t.Fatalf("the task is %+v, %v", got, err)
	}
	if _, err := c.Set(t.Context(), ids[0], v, "anna", client.AtVersion(got.Version-1)); !errors.Is(err, client.ErrConflict) {
		t.Errorf("at another version: %v", err)
	}
	if _, err := c.Delete(t.Context(), ids[0]); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("a task in error was deleted: %v", err)
	}
	if _, err := c.Cancel(t.Context(), ids[0], ""); err != nil {
		t.Fatal(err)
	}
	if got, err = c.Delete(t.Context(), ids[0]); err != nil || got.ID != ids[0] {
		t.Errorf("the task is %+v, %v", got, err)
	}
	if _, err := c.Get(t.Context(), ids[0]); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the task was deleted, and is there: %v", err)
	}
}
