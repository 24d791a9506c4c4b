package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// familyChecks returns the checks of children whose ends a task learns of, and of signals that it sends.
func familyChecks() []check {
	const asks = "family: adds children of a name and waits for them, unless it was woken; then it returns how they have ended"
	const sends = "signals: sends the signal of the payload with the result \"sent\""
	const fan = "fan: a flow of the steps begin, children of the name page, and end; see docs/handlers.md"
	const never = "without the feature the finish is a permanent error of class unsupported: the host would not do it"
	return []check{
		in(full, "family", "a task adds children of a name, and waits for them", asks, addsChildren),
		in(full, "family", "a task learns of its children and of its parent", asks, seesFamily),
		in(wide, "family", "without the feature children of a name fail their task for good", never, func(s *session) error {
			return s.unsupported("family", familyPayload)
		}),
		in(full, "signals", "a task sends signals, to the id or to the key of a task", sends, sendsSignals),
		in(wide, "signals", "without the feature a signal fails its task for good", never, func(s *session) error {
			return s.unsupported("signals", `{"type": "order", "key": "4711", "name": "paid"}`)
		}),
		onANode("family", "a node runs a task again when its children have ended", asks, seeNodeFamily),
		onANode("signals", "a node delivers a signal with the finish, unless the task is of another type", sends, seeNodeSignals),
		onANode("fan", "a flow that waits for its children goes on when its process was killed", fan, seeFan),
	}
}

const familyPayload = `{"name": "pägé", "type": "leaf", "payloads": ["a", ""], "count": 2, "or_failed": true, "result": "so far"}`

func addsChildren(s *session) error {
	f, err := s.do(newRun("family", []byte(familyPayload)))
	if err != nil {
		return err
	}
	want := &wire.Finish{
		RunId:    f.GetRunId(),
		Children: []*wire.Child{{Set: "pägé", Type: leafType, Payload: []byte("a")}, {Set: "pägé", Type: leafType}},
		Outcome: &wire.Finish_Again{Again: &wire.Again{
			Result: []byte("so far"), Wait: &wire.Wait{Children: []*wire.ChildrenWait{{Name: "pägé", Count: 2, OrFailed: true}}},
		}},
	}
	return sameFinish(f, want)
}

func sameFinish(got, want *wire.Finish) error {
	if !proto.Equal(got, want) {
		return fmt.Errorf("instead of {%.500v} came {%.500v}", want, got)
	}
	return nil
}

// relatives are the result of a task of the type family that was woken.
type relatives struct {
	By     string `json:"by"`
	Parent *struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Index uint32 `json:"index"`
	} `json:"parent"`
	Children []siblings `json:"children"`
}

// siblings are the children of one name.
type siblings struct {
	Name      string   `json:"name"`
	Added     uint32   `json:"added"`
	Done      uint32   `json:"done"`
	Failed    uint32   `json:"failed"`
	Cancelled uint32   `json:"cancelled"`
	IDs       []string `json:"ids"`
}

func (s siblings) equal(o siblings) bool {
	return s.Name == o.Name && s.Added == o.Added && s.Done == o.Done && s.Failed == o.Failed && s.Cancelled == o.Cancelled && slices.Equal(s.IDs, o.IDs)
}

func seesFamily(s *session) error {
	parent := task.ID{7, 0xfe, 15: 1}
	run := newRun("family", []byte(familyPayload))
	run.Woken = &wire.Woken{By: wire.Woken_BY_CHILDREN}
	run.Parent = &wire.Parent{TaskId: parent[:], Name: "örder", Index: 300}
	run.Children = []*wire.ChildSet{
		{Name: "pägé", Added: 3, Done: 1, Failed: 1, Cancelled: 1, Ended: []byte{7}},
		{Name: "bound", Added: 2, Done: 2, Ended: []byte{3}, Shards: []byte{5, 250}},
	}
	f, err := s.do(run)
	if err != nil {
		return err
	}
	result, err := resultOf(f)
	if err != nil {
		return err
	}
	var got relatives
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the result is %.500q: %w", result, err)
	}
	if got.By != "children" || got.Parent == nil || got.Parent.ID != parent.String() || got.Parent.Name != "örder" || got.Parent.Index != 300 {
		return fmt.Errorf("the result is %.500q, wanted are the end of a wait for children and the parent %v, \"örder\", 300", result, parent)
	}
	own := task.ID(run.GetTaskId())
	want := []siblings{
		{"pägé", 3, 1, 1, 1, idsOf(own, &task.ChildSet{Name: "pägé", Added: 3})},
		{"bound", 2, 2, 0, 0, idsOf(own, &task.ChildSet{Name: "bound", Added: 2, Shards: []byte{5, 250}})},
	}
	if !slices.EqualFunc(got.Children, want, siblings.equal) {
		return fmt.Errorf("the result is %.700q, wanted are the children %+v", result, want)
	}
	return nil
}

// idsOf returns the ids of the children of a task.
func idsOf(parent task.ID, s *task.ChildSet) (ids []string) {
	for i := range s.Added {
		ids = append(ids, s.Child(parent, i, -1).String())
	}
	return ids
}

func sendsSignals(s *session) error {
	to, id := task.ID{1, 0x4f, 15: 0xff}, task.ID{2, 15: 3}
	for payload, want := range map[string]*wire.Signal{
		fmt.Sprintf(`{"to": %q, "type": "order", "id": %q, "name": "päid", "data": "cäsh", "keep": true}`, to, id): {
			TaskId: to[:], Type: "order", Id: id[:], Name: "päid", Data: []byte("cäsh"), Keep: true,
		},
		fmt.Sprintf(`{"to": %q, "name": "paid"}`, to):                             {TaskId: to[:], Name: "paid"},
		`{"type": "order", "key": "47 11", "ordering_key": "eü", "name": "paid"}`: {Type: "order", Key: "47 11", OrderingKey: "eü", Name: "paid"},
	} {
		f, err := s.do(newRun("signals", []byte(payload)))
		if err != nil {
			return err
		}
		all := &wire.Finish{RunId: f.GetRunId(), Outcome: &wire.Finish_Result{Result: []byte("sent")}, Signals: []*wire.Signal{want}}
		if err := sameFinish(f, all); err != nil {
			return err
		}
	}
	return nil
}

// seeNodeFamily has a task of a node wait for its children, of which one fails, and for the first that fails.
func seeNodeFamily(ctx context.Context, n realNode) error {
	for payload, want := range map[string]siblings{
		`{"name": "page", "type": "leaf", "payloads": ["done", "fail", "done"], "result": "so far"}`:             {Added: 3, Done: 2, Failed: 1},
		`{"name": "page", "type": "leaf", "payloads": ["hold", "fail"], "or_failed": true, "result": "so far"}`:  {Added: 2, Failed: 1},
		`{"name": "page", "type": "leaf", "payloads": ["hold", "done", "hold"], "count": 1, "result": "so far"}`: {Added: 3, Done: 1},
	} {
		id, err := n.submit(ctx, "family", payload)
		if err != nil {
			return err
		}
		result, err := n.result(ctx, id)
		if err != nil {
			return err
		}
		want.Name, want.IDs = "page", idsOf(id, &task.ChildSet{Name: "page", Added: want.Added})
		var got relatives
		if err := json.Unmarshal(result, &got); err != nil || got.By != "children" || got.Parent != nil || len(got.Children) != 1 || !got.Children[0].equal(want) {
			return fmt.Errorf("the result is %.500q (%w), wanted are the children %+v, and no parent", result, err, want)
		}
		for _, child := range got.Children[0].IDs {
			of, err := task.ParseID(child)
			if err != nil {
				return err
			}
			if t, err := n.Get(ctx, of); err != nil || t.Type != leafType {
				return fmt.Errorf("the child %v is %v (%w)", of, t, err)
			}
		}
	}
	return nil
}

// seeNodeSignals has a task of a node send signals to a task that waits, of which the first names another type.
func seeNodeSignals(ctx context.Context, n realNode) error {
	receipts, err := n.Submit(ctx, engine.Request{Type: addresseeType, Key: "4711"})
	if err != nil {
		return err
	}
	to := receipts[0].ID
	if err := n.awaitState(ctx, to, task.Waiting); err != nil {
		return err
	}
	for _, payload := range []string{
		fmt.Sprintf(`{"to": %q, "type": "leaf", "name": "paid", "data": "to another type"}`, to),
		`{"type": "addressee", "key": "4711", "name": "paid", "data": "cäsh"}`,
	} {
		result, err := done(ctx, n, engine.Request{Type: "signals", Payload: []byte(payload)})
		if err != nil {
			return err
		}
		if string(result) != "sent" {
			return fmt.Errorf("the result is %.100q", result)
		}
		if err := n.carried(ctx); err != nil {
			return err
		}
	}
	got, err := n.result(ctx, to)
	if err != nil {
		return err
	}
	if string(got) != "cäsh" {
		return fmt.Errorf("the task that waits got %.100q", got)
	}
	return nil
}

// carried waits until the signals that tasks of the node have sent are delivered or dropped.
func (n realNode) carried(ctx context.Context) error {
	for {
		on, _, err := n.List(ctx, storage.Filter{Types: []string{"taskengine.relay"}}, task.ID{}, 1)
		if err != nil || len(on) == 0 {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("signals of the node are on their way: %w", context.Cause(ctx))
		}
	}
}

// seeFan kills the process of a flow that waits for its children.
func seeFan(ctx context.Context, n realNode) error {
	id, err := n.submit(ctx, "fan", `{"type": "leaf", "payloads": ["hold", "done", "fail"]}`)
	if err != nil {
		return err
	}
	if err := n.awaitState(ctx, id, task.Waiting); err != nil {
		return err
	}
	if err := n.kill(); err != nil {
		return err
	}
	close(n.held)
	result, err := n.result(ctx, id)
	if err != nil {
		return err
	}
	var got struct {
		siblings
		Count        uint32
		Began, Ended string
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return fmt.Errorf("the result is %.500q: %w", result, err)
	}
	want := siblings{Done: 2, Failed: 1, IDs: idsOf(id, &task.ChildSet{Name: "page", Added: 3})}
	if !got.siblings.equal(want) || got.Count != 3 || got.Began == got.Ended || got.Began == "" || got.Ended == "" {
		return fmt.Errorf("the result is %.500q, wanted are %+v, and the steps begin and end of two processes", result, want)
	}
	return nil
}
