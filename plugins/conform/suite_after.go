package conform

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// afterChecks returns the checks of tasks that run after others.
func afterChecks() []check {
	const spawns = "after: spawns a task of the type that runs after the tasks of the payload, and returns \"spawned\""
	const never = "without the feature the finish is a permanent error of class unsupported: the host would run the task at once"
	return []check{
		in(full, "after", "a task spawns others that run after tasks", spawns, spawnsAfter),
		greeted(func() *wire.Welcome { return without("after") }, "after", "without the feature a task after others fails the one that spawns it for good", never, func(_ *exam, s *session) error {
			return s.unsupported("after", fmt.Sprintf(`{"type": "leaf", "after": [%q]}`, task.ID{1}))
		}),
		onANode("after", "a node runs a task that was spawned to run after another when that is done", spawns, seeNodeAfter),
	}
}

func spawnsAfter(s *session) error {
	first, second := task.ID{1, 0x4f, 15: 0xff}, task.ID{2, 15: 3}
	for payload, want := range map[string]*wire.Child{
		fmt.Sprintf(`{"type": "leaf", "payload": "ä", "after": [%q]}`, first): {
			Type: leafType, Payload: []byte("ä"), After: [][]byte{first[:]},
		},
		fmt.Sprintf(`{"type": "mail", "after": [%q, %q], "any": true}`, second, first): {
			Type: "mail", After: [][]byte{second[:], first[:]}, AfterAny: true,
		},
	} {
		f, err := s.do(newRun("after", []byte(payload)))
		if err != nil {
			return err
		}
		all := &wire.Finish{RunId: f.GetRunId(), Outcome: &wire.Finish_Result{Result: []byte("spawned")}, Children: []*wire.Child{want}}
		if err := sameFinish(f, all); err != nil {
			return err
		}
	}
	return nil
}

// seeNodeAfter has a task of a node spawn one that runs after a task that goes on until the check lets it end.
func seeNodeAfter(ctx context.Context, n realNode) error {
	first, err := n.submit(ctx, leafType, "hold")
	if err != nil {
		return err
	}
	payload := fmt.Appendf(nil, `{"type": "leaf", "payload": "late", "after": [%q]}`, first)
	result, err := done(ctx, n, engine.Request{Type: "after", Payload: payload})
	if err != nil {
		return err
	}
	if string(result) != "spawned" {
		return fmt.Errorf("the result is %.100q", result)
	}
	if err := n.carried(ctx); err != nil {
		return err
	}
	t, err := n.Get(ctx, first)
	if err != nil {
		return err
	}
	followers := t.Children.Set(task.FollowersSet).Tasks()
	if len(followers) != 1 {
		return fmt.Errorf("the tasks that run after the first are %v, wanted is one", followers)
	}
	late, err := n.Get(ctx, followers[0])
	if err != nil {
		return err
	}
	if late.State != task.Waiting || late.Type != leafType {
		return fmt.Errorf("the task that was spawned is %v, of the type %q, while the first runs", late.State, late.Type)
	}
	close(n.held)
	if result, err = n.result(ctx, late.ID); err == nil && string(result) != "late" {
		err = fmt.Errorf("the result of the task that was spawned is %.100q", result)
	}
	return err
}
