package handler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// say spawns three children.
func say(ctx context.Context) error {
	priority := task.HighestPriority
	child := Child{
		Type: "mail", Payload: []byte("to you"), Key: "k", OrderingKey: "o", Headers: map[string]string{"a": "b"},
		RunAt: time.UnixMicro(1234567), Priority: &priority,
	}
	err := Spawn(ctx, child)
	clear(child.Payload) // the spawned task stays as it was
	clear(child.Headers)
	late := Child{Type: "late", After: []task.ID{{5}, {6}}, AfterAny: true}
	err = errors.Join(err, Spawn(ctx, Child{Type: "audit"}), Spawn(ctx, late))
	clear(late.After)
	return err
}

func TestChildrenGoWithSuccessAndWithNothingElse(t *testing.T) {
	first, second := task.ID{5}, task.ID{6}
	said := &wire.Finish{
		Children: []*wire.Child{
			{
				Type: "mail", Payload: []byte("to you"), Key: "k", OrderingKey: "o", Headers: map[string]string{"a": "b"},
				RunAt: 1234567, Priority: proto.Uint32(0),
			},
			{Type: "audit"},
			{Type: "late", After: [][]byte{first[:], second[:]}, AfterAny: true},
		},
	}
	for name, c := range map[string]struct {
		err  error
		want *wire.Finish
	}{
		"done":    {nil, said},
		"again":   {task.Again(time.Now()), said},
		"failed":  {errors.New("no"), &wire.Finish{}},
		"snoozed": {task.Snooze(time.Second), &wire.Finish{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alone := Func(func(ctx context.Context, _ *task.Task) ([]byte, error) { return nil, errors.Join(say(ctx), c.err) })
				batch := Batch(1, 0, func(ctx context.Context, tasks []*task.Task) ([]Outcome, error) {
					return nil, errors.Join(say(ContextOf(ctx, tasks[0])), c.err)
				})
				h := meet(t, Program{Handlers: Handlers{"alone": alone, "batch": batch}, Slots: 10}, "children", "after")
				h.run("alone", 1)
				h.run("batch", 2)
				for id := range uint64(2) {
					f := h.finish(id + 1)
					got := &wire.Finish{Children: f.GetChildren()}
					if !proto.Equal(got, c.want) || f.GetOutcome() == nil {
						t.Errorf("the answer is {%v}, want one with {%v}", f, c.want)
					}
				}
			})
		})
	}
}

func TestWhatCannotBeSpawnedIsAnErrorThatFailsTheTask(t *testing.T) {
	tooLow := task.LowestPriority + 1
	for name, c := range map[string]struct {
		features  []string
		do        func(context.Context) error
		want      string
		class     string
		permanent bool
	}{
		"children are not served": {[]string{"progress"}, say, "does not take children", "unsupported", true},
		"nothing is served":       {nil, say, "does not take children", "unsupported", true},
		"a child without a type":  {do: func(ctx context.Context) error { return Spawn(ctx, Child{}) }, want: "needs a type"},
		"a priority that is none": {do: func(ctx context.Context) error {
			return Spawn(ctx, Child{Type: "mail", Priority: &tooLow})
		}, want: "the priority of a child is 10"},
		"the time of a task after others": {do: func(ctx context.Context) error {
			return Spawn(ctx, Child{Type: "mail", After: []task.ID{{1}}, RunAt: time.Now()})
		}, want: "it has a time, and after"},
		"too many tasks before it": {do: func(ctx context.Context) error {
			return Spawn(ctx, Child{Type: "mail", After: make([]task.ID, task.MaxAfter+1)})
		}, want: "after has 101 tasks"},
		"a task before it twice":   {do: func(ctx context.Context) error { return Spawn(ctx, Child{Type: "mail", After: []task.ID{{1}, {1}}}) }, want: "twice"},
		"after any task, and none": {do: func(ctx context.Context) error { return Spawn(ctx, Child{Type: "mail", AfterAny: true}) }, want: "names no task"},
		"tasks after others are not served": {[]string{"children"}, func(ctx context.Context) error {
			return Spawn(ctx, Child{Type: "mail", After: []task.ID{{1}}})
		}, "tasks that run after others", "unsupported", true},
		"a key that is no text": {do: func(ctx context.Context) error { return Spawn(ctx, Child{Type: "mail", Key: "\xff"}) }, want: "UTF-8"},
		"a header that is no text": {do: func(ctx context.Context) error {
			return Spawn(ctx, Child{Type: "mail", Headers: map[string]string{"a": "\xff"}})
		}, want: "UTF-8"},
		"the first of what is wrong": {do: func(ctx context.Context) error {
			err := Spawn(ctx, Child{})
			return errors.Join(err, say(ctx), Spawn(ctx, Child{Type: "mail", Key: "\xff"}))
		}, want: "needs a type"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.features == nil && c.class == "" {
				c.features = []string{"children", "after"}
			}
			synctest.Test(t, func(t *testing.T) {
				var got error
				h := meet(t, Program{Slots: 10, Handlers: Handlers{
					"heedless": Func(func(ctx context.Context, _ *task.Task) ([]byte, error) { got = c.do(ctx); return nil, nil }),
				}}, c.features...)
				h.run("heedless", 1)
				f := h.finish(1)
				if got == nil || !strings.Contains(got.Error(), c.want) {
					t.Errorf("the error is %v, want %q", got, c.want)
				}
				e := f.GetError()
				if !strings.Contains(e.GetMessage(), c.want) || e.GetClass() != c.class || e.GetPermanent() != c.permanent ||
					len(f.GetChildren()) > 0 {
					t.Errorf("a handler that ignores the error was answered with {%v}", f)
				}
			})
		})
	}
}

func TestChildrenHaveToFitIntoAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meet(t, Program{Slots: 10, Handlers: Handlers{"large": Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			return make([]byte, 500), Spawn(ctx, Child{Type: "mail", Payload: make([]byte, 500)}) // of 1000 allowed
		})}}, "children")
		h.run("large", 1)
		if f := h.finish(1); f.GetError().GetClass() != "result_too_large" || !f.GetError().GetPermanent() || len(f.GetChildren()) > 0 {
			t.Errorf("the answer is {%v}", f)
		}
	})
}

func TestSpawnNeedsATaskThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over, call context.Context
		h := meet(t, Program{Slots: 10, Handlers: Handlers{
			"alone": Func(func(ctx context.Context, _ *task.Task) ([]byte, error) { over = ctx; return nil, nil }),
			"batch": Batch(1, 0, func(ctx context.Context, _ []*task.Task) ([]Outcome, error) { call = ctx; return nil, nil }),
		}}, "children")
		h.run("alone", 1)
		h.run("batch", 2)
		for want, ctx := range map[string]context.Context{"too late": over, "ContextOf": call, "a handler program": t.Context()} {
			if err := Spawn(ctx, Child{Type: "mail"}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
	})
}
