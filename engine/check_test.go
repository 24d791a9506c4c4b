package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// checked is what a handler was answered.
type checked struct {
	refused []task.Refusal
	err     error
}

// asking runs a handler of the type ask that calls fn, on a node that has the types of set.
func asking(t *testing.T, set policy.Set, prepare func(*node), fn func(ctx context.Context, t *task.Task) checked) checked {
	t.Helper()
	set.Types["ask"] = one("ask", nil).Types["ask"]
	answers := make(chan checked, 1)
	n := start(t, set, map[string]task.Handler{
		"ask": task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			answers <- fn(ctx, t)
			return nil, nil
		}),
	})
	if prepare != nil {
		prepare(n)
	}
	n.end(n.submit(engine.Request{Type: "ask"}))
	return <-answers
}

// shown returns refusals in short: "index reason".
func (c checked) shown() (all []string) {
	for _, r := range c.refused {
		all = append(all, fmt.Sprintf("%d %v", r.Index, r.Reason))
	}
	return all
}

func (c checked) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := c.shown(); c.err != nil || !slices.Equal(got, want) {
		t.Errorf("the refusals are %q (%v, %+v), want %q", got, c.err, c.refused, want)
	}
}

func TestAHandlerLearnsWhichChildrenWouldBeRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("child", func(p *policy.Type) { p.MaxPayload = 10 })
		set.Types["keyed"] = one("keyed", func(p *policy.Type) { p.Unique.By = []string{"payload.id"} }).Types["keyed"]
		got := asking(t, set, nil, func(ctx context.Context, _ *task.Task) checked {
			refused, err := task.CheckChildren(ctx, "page",
				task.Request{Type: "child"},
				task.Request{},
				task.Request{Type: "child", Payload: make([]byte, 11)},
				task.Request{Type: "child", Headers: map[string]string{"h": strings.Repeat("x", engine.MaxHeaders)}},
				task.Request{Type: "child", Key: "k"},
				task.Request{Type: "child", OrderingKey: "o"},
				task.Request{Type: "taskengine.relay"},
				task.Request{Type: "keyed", Payload: []byte(`{"id":1}`)},
				task.Request{Type: "nobody"},
				task.Request{Type: "child"},
			)
			return checked{refused, err}
		})
		got.expect(t, "1 invalid", "2 too_large", "3 too_large", "4 invalid", "5 invalid", "6 invalid", "7 invalid", "8 unknown_type")
		for i, want := range []string{"type is missing", "payload has 11 bytes, of 10 allowed", "headers have", "key of its own", "ordering key", "reserved", "unique.by", "no live node has a handler for type nobody"} {
			if !strings.Contains(got.refused[i].Text, want) {
				t.Errorf("refusal %d says %q, want %q", i, got.refused[i].Text, want)
			}
		}
	})
}

func TestAHandlerLearnsThatItWouldHaveTooManyChildren(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		got := asking(t, one("child", nil), nil, func(ctx context.Context, t *task.Task) checked {
			t.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: task.MaxChildren - 1}}}
			refused, err := task.CheckChildren(ctx, "page", task.Request{Type: "child"}, task.Request{Type: "child"})
			return checked{refused, err}
		})
		got.expect(t, "1 too_many")
		got = asking(t, one("child", nil), nil, func(ctx context.Context, t *task.Task) checked {
			t.Children = &task.Children{Sets: make([]task.ChildSet, task.MaxChildSets)}
			refused, err := task.CheckChildren(ctx, "page", task.Request{Type: "child"})
			return checked{refused, err}
		})
		got.expect(t, "0 too_many")
		got = asking(t, one("child", nil), nil, func(ctx context.Context, _ *task.Task) checked {
			refused, err := task.CheckChildren(ctx, "a\nb", task.Request{Type: "child"})
			return checked{refused, err}
		})
		if got.err == nil || got.refused != nil {
			t.Errorf("children of an impossible name: %+v", got)
		}
	})
}

func TestAHandlerLearnsWhichKeysAreTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("mail", func(p *policy.Type) { p.Unique.OnConflict = policy.ReplaceExisting })
		other := task.ID{1, 15: 9}
		var holder task.ID
		got := asking(t, set, func(n *node) {
			holder = n.submit(engine.Request{Type: "mail", Key: "taken", At: time.Now().Add(time.Hour)})
			n.submit(engine.Request{Type: "mail", ID: other, At: time.Now().Add(time.Hour)})
		}, func(ctx context.Context, _ *task.Task) checked {
			refused, err := task.CheckTasks(ctx,
				task.Request{Type: "mail", Key: "free"},
				task.Request{Type: "mail", Key: "taken"},
				task.Request{Type: "mail", Key: "taken", OrderingKey: "o"},
				task.Request{Type: "mail", ID: other},
				task.Request{Type: "mail", Key: "free"},
				task.Request{Type: "mail"},
			)
			return checked{refused, err}
		})
		got.expect(t, "1 key_taken", "3 key_taken", "4 key_taken")
		for i, want := range []task.ID{holder, other, {}} {
			if got.refused[i].ID != want {
				t.Errorf("the key of request %d is of %v, want %v", got.refused[i].Index, got.refused[i].ID, want)
			}
		}
		if got.refused[0].Reason.Fails() || !task.RefusedFull.Fails() {
			t.Error("a taken key fails an attempt, or a full backlog does not")
		}
	})
}

// A check claims no place, so each of several has the same answer.
func TestAHandlerLearnsThatABacklogIsFull(t *testing.T) {
	for _, full := range []policy.WhenFull{policy.Reject, policy.PauseSource} {
		inBubble(t, func(t *testing.T) {
			set := one("few", func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 3, WhenFull: full} })
			set.Types["many"] = one("many", nil).Types["many"]
			got := asking(t, set, func(n *node) {
				n.submit(engine.Request{Type: "few", At: time.Now().Add(time.Hour)})
			}, func(ctx context.Context, _ *task.Task) checked {
				requests := []task.Request{{Type: "many"}, {Type: "few"}, {Type: "few"}, {Type: "few"}, {Type: "many"}}
				for range 3 {
					if fits, err := task.CheckChildren(ctx, "page", requests[:3]...); err != nil || fits != nil {
						return checked{fits, fmt.Errorf("two of three places are not enough: %w", err)}
					}
				}
				refused, err := task.CheckChildren(ctx, "page", requests...)
				return checked{refused, err}
			})
			got.expect(t, "1 backlog", "2 backlog", "3 backlog")
			if text := got.refused[0].Text; !strings.Contains(text, "type few has 1 tasks") {
				t.Errorf("the refusal says %q", text)
			}
		})
	}
}

func TestACheckWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("child", nil)
		var n *node
		got := asking(t, set, func(of *node) { n = of }, func(ctx context.Context, _ *task.Task) checked {
			if refused, err := task.CheckTasks(ctx, task.Request{Type: "child", Key: "k"}); err != nil || refused != nil {
				return checked{refused, err}
			}
			refused, err := task.CheckChildren(ctx, "page", task.Request{Type: "child"})
			return checked{refused, err}
		})
		got.expect(t)
		counts, err := n.Count(t.Context(), storage.Filter{Types: []string{"child"}})
		if err != nil || len(counts) != 0 {
			t.Errorf("there are %v children (%v)", counts, err)
		}
	})
}

func TestWithoutAnEngineNothingIsRefused(t *testing.T) {
	refused, err := task.CheckChildren(t.Context(), "page", task.Request{})
	checked{refused, err}.expect(t)
}

// The rules of the retry policy know the error of a refused child by its class.
func TestTheErrorOfARefusedChildHasAClass(t *testing.T) {
	for class, child := range map[string]engine.Request{"refused": {}, "backlog": {Type: "few"}} {
		inBubble(t, func(t *testing.T) {
			set := one("parent", func(p *policy.Type) { p.Retry.Max, p.Retry.On = 9, map[string]policy.Rule{class: {Never: true}} })
			set.Types["few"] = one("few", func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 1} }).Types["few"]
			n := start(t, set, handle("parent", func(context.Context, *task.Task) ([]byte, error) {
				return nil, task.Again(time.Time{}, task.WithTasks(child, child))
			}))
			if got := n.end(n.submit(engine.Request{Type: "parent"})); got.State != task.Error || got.Attempt != 1 {
				t.Errorf("%s: the parent is %v after %d attempts: %s", class, got.State, got.Attempt, got.LastError)
			}
		})
	}
}
