package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// flows are the workflows of the configuration of a node, which changes when the node is started anew. It is safe for concurrent
// use.
type flows struct {
	now atomic.Pointer[map[string]string]
}

func newFlows(all map[string]string) *flows {
	f := new(flows)
	f.now.Store(&all)
	return f
}

func (f *flows) request(name string, input []byte) (task.Request, error) {
	text, has := (*f.now.Load())[name]
	if !has {
		return task.Request{}, fmt.Errorf("%w: %s", scheduler.ErrNoWorkflow, name)
	}
	d, err := workflow.Parse([]byte(text))
	if err != nil {
		return task.Request{}, err
	}
	d.Name = name
	return workflow.Request(d, input)
}

// configure gives a node workflows. Tasks of type report are noted with their payload, and take two and a half hours if it is a time.
func (f *flows) configure(noted *book) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Policies.Types[workflow.Type] = runner.TypePolicy()
		c.Handlers[workflow.Type], c.Handlers[schedule.Type] = runner.Handler, scheduler.HandlerOf(f.request)
		c.Handlers["report"] = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			noted.note("%s", t.Payload)
			var at time.Time
			if json.Unmarshal(t.Payload, &at) != nil {
				return nil, nil
			}
			select {
			case <-time.After(2*time.Hour + 30*time.Minute):
				return nil, nil
			case <-ctx.Done():
				noted.note("cancelled %s", t.Payload)
				return nil, ctx.Err()
			}
		})
	}
}

// openFlows starts an engine with workflows.
func openFlows(t *testing.T, f *flows, noted *book) (*engine.Engine, scheduler.Schedules) {
	t.Helper()
	long := policy.DefaultType()
	long.Timeout.Run = 0
	c := engine.Config{
		Store:    memory.New(),
		Policies: policy.Set{Types: map[string]policy.Type{"report": long, schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{},
	}
	f.configure(noted)(&c)
	e, err := engine.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return e, scheduler.Of(e)
}

func hourlyFlow(overlap schedule.Overlap) schedule.Definition {
	return schedule.Definition{Every: time.Hour, Overlap: overlap, Task: schedule.Template{Workflow: "etl", Payload: `{"at": "{{time}}"}`}}
}

// A fire adds the workflow as the node has it then. Placeholders are filled in in its input only.
func TestAFireHasTheWorkflowOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := new(book)
		f := newFlows(map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": {"old": {"$input": "at"}, "text": "{{date}} {{what}}"}}}}`})
		e, s := openFlows(t, f, noted)
		if _, err := s.Apply(t.Context(), "hourly", hourlyFlow(schedule.Skip)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		f.now.Store(&map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": {"new": {"$input": "at"}}}}}`})
		time.Sleep(time.Hour)
		if got, want := noted.take(), `{"new":"2000-01-01T02:00:00Z"}, {"old":"2000-01-01T01:00:00Z","text":"{{date}} {{what}}"}`; got != want {
			t.Errorf("the tasks are %s\nwant %s", got, want)
		}
		at, err := s.Get(t.Context(), "hourly")
		if err != nil {
			t.Fatal(err)
		}
		last, err := e.Get(t.Context(), at.State.Last.Task)
		if err != nil || last.State != task.Done || last.Headers[workflow.HeaderName] != "etl" || last.Headers[schedule.HeaderName] != "hourly" {
			t.Errorf("the newest workflow is %+v, %v", last, err)
		}
		shut(t, e)
	})
}

// The definition of a workflow that is in the payload of a schedule is not searched for placeholders.
func TestADefinitionInAPayloadHasNoPlaceholders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := new(book)
		e, s := openFlows(t, newFlows(nil), noted)
		d := hourlyFlow(schedule.Skip)
		d.Task = schedule.Template{Type: workflow.Type, Payload: `{"format": 1, "input": "{{date}}", "definition": {"steps": {"a": {"type": "report", "if": "$input > '{{what}}' or 1 < 2", "payload": [{"$input": ""}, "{{date}}"]}}}}`}
		if _, err := s.Apply(t.Context(), "hourly", d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		if got, want := noted.take(), `["2000-01-01","{{date}}"]`; got != want {
			t.Errorf("the task is %s, want %s", got, want)
		}
		shut(t, e)
	})
}

// The overlap policies hold for workflows as for tasks. A cancelled workflow cancels its tasks.
func TestOverlapsOfWorkflows(t *testing.T) {
	for overlap, want := range map[schedule.Overlap]string{
		schedule.Skip:      "01, 04, 07",
		schedule.Queue:     "01, 02, 03",
		schedule.CancelOld: "01, 02, cancelled 01, 03, cancelled 02, 04, cancelled 03, 05, cancelled 04, 06, cancelled 05, 07, cancelled 06",
		schedule.Allow:     "01, 02, 03, 04, 05, 06, 07",
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				noted := new(book)
				e, s := openFlows(t, newFlows(map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": {"$input": "at"}}}}`}), noted)
				if _, err := s.Apply(t.Context(), "long", hourlyFlow(overlap)); err != nil {
					t.Fatal(err)
				}
				var notes []string
				time.Sleep(10 * time.Minute)
				for range 7 {
					time.Sleep(time.Hour)
					if hour := noted.take(); hour != "" {
						at := strings.Split(strings.ReplaceAll(hour, `"`, ""), ", ")
						slices.Sort(at)
						notes = append(notes, at...)
					}
				}
				got := strings.NewReplacer("2000-01-01T", "", ":00:00Z", "").Replace(strings.Join(notes, ", "))
				if got != want {
					t.Errorf("%q have begun, not %q", got, want)
				}
				if err := s.Delete(t.Context(), "long"); err != nil {
					t.Error(err)
				}
				time.Sleep(12 * time.Hour)
				shut(t, e)
			})
		})
	}
}

// An attempt that has cancelled a workflow and not its tasks, because it was lost in between, is followed by one that cancels these.
func TestACancelOfAWorkflowThatWasInterruptedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := new(book)
		e, s := openFlows(t, newFlows(map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": {"$input": "at"}}}}`}), noted)
		if _, err := s.Apply(t.Context(), "hourly", hourlyFlow(schedule.CancelOld)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		at, err := s.Get(t.Context(), "hourly")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Cancel(t.Context(), task.Ref{ID: at.State.Last.Task}, "interrupted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, want := noted.take(), `"2000-01-01T01:00:00Z", "2000-01-01T02:00:00Z", cancelled "2000-01-01T01:00:00Z"`; got != want {
			t.Errorf("the tasks are %s, want %s", got, want)
		}
		if err := s.Delete(t.Context(), "hourly"); err != nil {
			t.Error(err)
		}
		time.Sleep(12 * time.Hour)
		shut(t, e)
	})
}

// A node without the workflow of a schedule does not fire it, says why, and fires what was due when it has the workflow. It can be deleted.
func TestANodeWithoutTheWorkflowOfAScheduleSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := new(book)
		f := newFlows(nil)
		e, s := openFlows(t, f, noted)
		for _, name := range []string{"hourly", "other"} {
			if _, err := s.Apply(t.Context(), name, hourlyFlow(schedule.Skip)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(90 * time.Minute)
		at, err := s.Get(t.Context(), "hourly")
		if err != nil || at.State.Fires > 0 || !strings.Contains(at.Task.LastError, "the configuration of the node has no such workflow: etl") {
			t.Errorf("the schedule is %+v, with the error %s, %v", at.State, at.Task.LastError, err)
		}
		if err := s.Delete(t.Context(), "other"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		f.now.Store(&map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": [{"$input": "at"}]}}}`})
		time.Sleep(time.Minute)
		if got, want := noted.take(), `["2000-01-01T01:00:00Z"]`; got != want {
			t.Errorf("the tasks are %s, want %s", got, want)
		}
		shut(t, e)
	})
}

// Of nodes with stores of their own, one with the workflow fires the schedule.
func TestAPeerWithTheWorkflowFiresTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, link := new(book), local.New()
		var peers []*peer
		for i := range 3 {
			f := newFlows(nil)
			if i == 2 {
				f = newFlows(map[string]string{"etl": `{"steps": {"a": {"type": "report", "payload": [{"$input": "at"}]}}}`})
			}
			peers = append(peers, openPeer(t, fmt.Sprint("n", i), link.Peer(), memory.New(), noted, f.configure(noted)))
		}
		if _, err := peers[0].Apply(t.Context(), "shared", hourlyFlow(schedule.Skip)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Hour + 30*time.Minute)
		if got, want := noted.take(), `["2000-01-01T01:00:00Z"], ["2000-01-01T02:00:00Z"], ["2000-01-01T03:00:00Z"]`; got != want {
			t.Errorf("the tasks are %s, want %s", got, want)
		}
		if i := holder(t, peers); i != 2 {
			t.Errorf("node %d fires", i)
		}
		for _, p := range peers {
			p.end()
		}
	})
}

func TestMistakesInSchedulesOfWorkflowsAreRefused(t *testing.T) {
	for _, c := range []struct {
		template schedule.Template
		want     string
	}{
		{schedule.Template{}, "the type of the tasks is missing; a workflow is in place of it"},
		{schedule.Template{Type: "report", Workflow: "etl"}, "type and workflow exclude each other"},
		{schedule.Template{Workflow: "e\x00"}, `workflow is "e\x00"`},
		{schedule.Template{Workflow: "etl", Payload: `{"a": }`}, "the input of the workflow is not JSON"},
		{schedule.Template{Workflow: "etl", Payload: `"{{dat}}"`}, "payload has the placeholder {{dat}}, which does not exist"},
	} {
		d := schedule.Definition{Every: time.Hour, Task: c.template}
		if _, err := d.Calendar("s"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v gives %v, want %s", c.template, err, c.want)
		}
	}
	for _, input := range []string{`{"n": {{unix}}, "at": "{{time}}"}`, ""} {
		d := schedule.Definition{Every: time.Hour, Task: schedule.Template{Workflow: "etl", Payload: input}}
		if _, err := d.Calendar("s"); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}
