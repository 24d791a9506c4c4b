package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// family starts an engine with the types parent, child and fails. A parent adds children of the names and types that its payload
// has, such as "a=child,fails b=child", and waits for all of the first name, for one of the second, and for no others. The handler of
// child returns when the engine is closed, and fails does so at once, for good.
func family(t *testing.T) *node {
	t.Helper()
	set := one("parent", nil)
	set.Types["child"], set.Types["fails"] = policy.DefaultType(), policy.DefaultType()
	return start(t, set, map[string]task.Handler{
		"parent": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By != task.NotWoken {
				return nil, nil
			}
			var waits []task.ChildrenWait
			var adds []task.AgainOption
			for i, set := range strings.Fields(string(t.Payload)) {
				name, types, _ := strings.Cut(set, "=")
				var reqs []task.Request
				for typ := range strings.SplitSeq(types, ",") {
					reqs = append(reqs, task.Request{Type: typ})
				}
				adds = append(adds, task.WithChildren(name, reqs...))
				if i < 2 {
					waits = append(waits, task.ChildrenWait{Name: name, Count: uint32(i), OrFailed: i == 1})
				}
			}
			return nil, task.WaitForChildren(waits, time.Time{}, adds...)
		}),
		"child": task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }),
		"fails": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errors.New("secret")) }),
	})
}

func childID(parent task.ID, name string, index uint32) task.ID {
	return task.Parent{ID: parent, Name: name, Index: index}.Child()
}

func TestWhySaysForWhichChildrenATaskWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := family(t)
		parent := n.submit(engine.Request{Type: "parent", Payload: []byte("a=child,child,fails b=child c=child")})
		synctest.Wait()
		if _, err := n.Cancel(t.Context(), task.Ref{ID: childID(parent, "a", 0)}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until the report has arrived
		synctest.Wait()
		_, why, err := n.Why(t.Context(), parent)
		if err != nil {
			t.Fatal(err)
		}
		stuck, runs, other := childID(parent, "a", 2), childID(parent, "a", 1), childID(parent, "b", 0)
		want := []engine.Reason{
			{
				Code: engine.CodeChildren, Used: 1, Max: 3, Holders: []task.ID{stuck, runs},
				Text: fmt.Sprintf(`it waits for 2 more of 3 children "a": 0 done, 0 failed, 1 cancelled; child 2 (%v) is in error, `+
					`and has not ended until a person resumes, fails or cancels it; child 1 (%v) is processing`, stuck, runs),
			},
			{
				Code: engine.CodeChildren, Max: 1, Holders: []task.ID{other},
				Text: fmt.Sprintf(`it waits for 1 more of 1 children "b", or for one that fails or is cancelled: 0 done, 0 failed, 0 cancelled; `+
					`child 0 (%v) is processing`, other),
			},
		}
		if fmt.Sprintf("%+v", why) != fmt.Sprintf("%+v", want) {
			t.Errorf("why: %+v, want %+v", why, want)
		}
	})
}

func TestWhyOfATaskWithManyChildrenReadsAndSaysFew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := family(t)
		parent := n.submit(engine.Request{Type: "parent", Payload: []byte("a=child" + strings.Repeat(",child", 98) + ",fails,fails b=child")})
		synctest.Wait()
		_, why, err := n.Why(t.Context(), parent)
		if err != nil || len(why) != 2 || len(why[0].Holders) != 5 || why[0].Holders[0] != childID(parent, "a", 99) {
			t.Fatalf("why: %+v, %v", why, err)
		}
		if text := why[0].Text; !strings.HasSuffix(text, "; 96 others have not ended, of which 1 were not looked at") || strings.Contains(text, "secret") {
			t.Errorf("why: %s", text)
		}
		if text := why[1].Text; len(why[1].Holders) != 0 || !strings.HasSuffix(text, "; 1 others have not ended, of which 1 were not looked at") {
			t.Errorf("why: %s", text)
		}
	})
}
