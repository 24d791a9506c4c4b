package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// onStores runs a test on a store in memory and on PostgreSQL.
func onStores(t *testing.T, test func(t *testing.T, store storage.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := memory.New()
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, s)
	})
	t.Run("postgres", func(t *testing.T) { test(t, postgrestest.Open(t, postgrestest.Tables(t, server))) })
}

// turns notes which tasks run. It is safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	running map[string]int      // the number of tasks of an ordering key that run
	order   map[string][]string // the payloads of an ordering key
	faults  []string
	both    chan struct{} // closed when tasks of two keys have begun
}

func newTurns() *turns {
	return &turns{running: make(map[string]int), order: make(map[string][]string), both: make(chan struct{})}
}

// handle returns when tasks of two keys have begun.
func (n *turns) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	key := t.OrderingKey
	n.mu.Lock()
	if n.order[key] = append(n.order[key], string(t.Payload)); len(n.order) == 2 && len(n.order[key]) == 1 {
		close(n.both)
	}
	if n.running[key]++; n.running[key] > 1 {
		n.faults = append(n.faults, fmt.Sprintf("%s runs beside another task of the key %q", t.Payload, key))
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.running[key]--
	}()
	select {
	case <-n.both:
		return t.Payload, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestTasksOfStepsRunOneAfterTheOtherInTheOrderOfTheirKey(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		c, n := config(), newTurns()
		c.Store = store
		c.Policies.Types["book"], c.Handlers["book"] = policy.DefaultType(), task.HandlerFunc(n.handle)
		c.Policies.Types["unbook"], c.Handlers["unbook"] = policy.DefaultType(), task.HandlerFunc(n.handle)
		e := taskenginetest.New(t, c)
		id := submit(t, e, `{"on_failure": "compensate", "steps": {
			"a": {"type": "book", "for_each": {"$input": "lines"}, "payload": {"$item": "text"}, "ordering_key": {"$item": "account"}, "compensate": {"type": "unbook", "payload": {"$result": "a"}, "ordering_key": {"$item": "account"}}},
			"b": {"type": "book", "payload": "b", "ordering_key": "4711"},
			"c": {"after": ["a", "b"], "type": "echo", "payload": {"$task": "a"}, "ordering_key": {"$result": "b"}},
			"d": {"after": ["c"], "type": "fail"}
		}}`, `{"lines": [{"account": 4711, "text": "a0"}, {"account": "x", "text": "a1"}, {"account": 4711, "text": "a2"}, {"account": "x", "text": "a3"}]}`)
		w := ended(t, e, id, task.Failed, "step d has failed")
		checkPhases(t, w, "a=done/done b=done c=done d=failed")
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, fault := range n.faults {
			t.Error(fault)
		}
		for key, want := range map[string]string{"4711": `"a0" "a2" "b" "a0" "a2"`, "x": `"a1" "a3" "a1" "a3"`} {
			if got := strings.Join(n.order[key], " "); got != want {
				t.Errorf("the tasks of the key %s have run in the order %s, want %s", key, got, want)
			}
		}
		ids, err := e.Get(t.Context(), step(w, "c").Tasks[0])
		if err != nil {
			t.Fatal(err)
		}
		var of []task.ID
		if err := json.Unmarshal(ids.Result, &of); err != nil || !slices.Equal(of, step(w, "a").Tasks) || ids.OrderingKey != "b" {
			t.Errorf("the step after them, with the key %q, sees the tasks %v, want %v: %v", ids.OrderingKey, of, step(w, "a").Tasks, err)
		}
		for i, id := range of {
			if got, err := e.Get(t.Context(), id); err != nil || got.Parent.Index != uint32(i) || got.OrderingKey != []string{"4711", "x"}[i%2] {
				t.Errorf("task %d is %v, %v", i, got, err)
			}
		}
	})
}

// With one slot, the head of a key runs before a task of a higher priority than its own because of the step behind it.
func TestTasksOfStepsInheritThePriorityOfThoseBehindThem(t *testing.T) {
	for inherits, want := range map[bool]string{true: `"first"`, false: `"other"`} {
		t.Run(fmt.Sprint(inherits), func(t *testing.T) {
			onStores(t, func(t *testing.T, store storage.Store) {
				c := config()
				c.Store, c.Policies.Slots = store, 1
				p := policy.DefaultType()
				p.Ordering.Inherit = inherits
				began := make(chan string, 3)
				c.Policies.Types["note"], c.Handlers["note"] = p, task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
					began <- string(t.Payload)
					return nil, nil
				})
				gate := make(chan struct{})
				c.Policies.Types["gate"], c.Handlers["gate"] = policy.DefaultType(), task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
					select {
					case <-gate:
						return nil, nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				})
				e := taskenginetest.New(t, c)
				if _, err := e.Submit(t.Context(), task.Request{Type: "gate"}); err != nil {
					t.Fatal(err)
				}
				id := submit(t, e, `{"steps": {
					"first":  {"type": "note", "payload": "first", "priority": 9, "ordering_key": "k"},
					"other":  {"type": "note", "payload": "other", "priority": 5},
					"urgent": {"type": "note", "payload": "urgent", "priority": 1, "ordering_key": "k"}
				}}`, "")
				for end := time.Now().Add(time.Minute); len(e.Tasks("note")) < 3; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the workflow adds no tasks")
					}
				}
				close(gate)
				ended(t, e, id, task.Done, "")
				if got := <-began; got != want {
					t.Errorf("%s has run first, want %s", got, want)
				}
			})
		})
	}
}

func TestAnOrderingKeyThatIsNoneFailsTheStep(t *testing.T) {
	for input, want := range map[string]string{
		`{"key": null}`: "step a has failed: ordering_key: the value is null, and text or a number",
		`{"key": [1]}`:  "step a has failed: ordering_key: the value is a list, and text or a number",
		`{"key": ""}`:   "step a has failed: ordering_key: the value is empty",
		`{}`:            `step a has failed: ordering_key: {"$input": "key"}: the value has no "key"`,
		`{"key": "` + strings.Repeat("é", 251) + `"}`: "step a has failed: ordering_key: the value has 502 bytes, of 500 allowed",
		`{"key": "` + strings.Repeat("é", 250) + `"}`: "",
		`{"key": 1234567890123456789012345}`:          "",
		`{"key": true}`:                               "step a has failed: ordering_key: the value is true, and text or a number",
	} {
		taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
			id := submit(t, e, `{"steps": {"a": {"type": "echo", "ordering_key": {"$input": "key"}}}}`, input)
			if want != "" {
				ended(t, e, id, task.Failed, want)
				return
			}
			var in struct{ Key any }
			w := ended(t, e, id, task.Done, "")
			d := json.NewDecoder(strings.NewReader(input))
			d.UseNumber()
			if err := d.Decode(&in); err != nil {
				t.Fatal(err)
			}
			if got, err := e.Get(t.Context(), step(w, "a").Tasks[0]); err != nil || got.OrderingKey != fmt.Sprint(in.Key) {
				t.Errorf("the input %s gives the ordering key %q, %v", input, got.OrderingKey, err)
			}
		})
	}
}

// A retried workflow adds tasks with ordering keys to its earlier tasks.
func TestAStepWithAnOrderingKeyRunsAnew(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		c := config()
		c.Store = store
		e := taskenginetest.New(t, c)
		id := submit(t, e, `{"steps": {"a": {"type": "echo", "count": 3, "payload": {"$index": ""}, "ordering_key": {"$index": ""}}, "b": {"type": "fail", "after": ["a"], "ordering_key": "b"}}}`, "")
		before := ended(t, e, id, task.Failed, "")
		if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, "a"); err != nil {
			t.Fatal(err)
		}
		w := ended(t, e, id, task.Failed, "the card was refused")
		all := append(slices.Clone(step(before, "a").Tasks), step(w, "a").Tasks...)
		if len(all) != 6 {
			t.Fatalf("the tasks are %v", all)
		}
		for i, id := range all {
			got, err := e.Get(t.Context(), id)
			if err != nil || got.State != task.Done || got.OrderingKey != fmt.Sprint(i%3) || got.Parent.Index != uint32(i) || got.Parent.Name != workflow.Set("a") {
				t.Errorf("task %d is %v, %v", i, got, err)
			}
		}
	})
}
