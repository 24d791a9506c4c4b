package conform_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

// requests returns a request of a type for each of some payloads.
func requests(typ string, payloads []string) (all []task.Request) {
	for _, p := range payloads {
		all = append(all, task.Request{Type: typ, Payload: []byte(p)})
	}
	return all
}

func familyAsAsked(_ context.Context, t *task.Task) ([]byte, error) {
	if w := t.Woken(); w.By != task.NotWoken {
		sets := []map[string]any{}
		for i := range t.Children.Sets {
			s := &t.Children.Sets[i]
			var ids []string
			for index := range s.Added {
				ids = append(ids, s.Child(t.ID, index, -1).String())
			}
			sets = append(sets, map[string]any{"name": s.Name, "added": s.Added, "done": s.Done, "failed": s.Failed, "cancelled": s.Cancelled, "ids": ids})
		}
		out := map[string]any{"by": w.By.String(), "children": sets}
		if p := t.Parent; p != nil {
			out["parent"] = map[string]any{"id": p.ID.String(), "name": p.Name, "index": p.Index}
		}
		return json.Marshal(out)
	}
	var in struct {
		Name, Type, Result string
		Payloads           []string
		Count              uint32
		OrFailed           bool `json:"or_failed"`
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	wait := task.ChildrenWait{Name: in.Name, Count: in.Count, OrFailed: in.OrFailed}
	return []byte(in.Result), task.WaitForChildren([]task.ChildrenWait{wait}, time.Time{}, task.WithChildren(in.Name, requests(in.Type, in.Payloads)...))
}

func spawnAfterAsAsked(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Type, Payload string
		After         []string
		Any           bool
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	child := handler.Child{Type: in.Type, Payload: []byte(in.Payload), AfterAny: in.Any}
	for _, text := range in.After {
		id, err := task.ParseID(text)
		if err != nil {
			return nil, err
		}
		child.After = append(child.After, id)
	}
	return []byte("spawned"), handler.Spawn(ctx, child)
}

func signalAsAsked(_ context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		To, ID, Type, Key, Name, Data string
		OrderingKey                   string `json:"ordering_key"`
		Keep                          bool
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	s := task.SignalRequest{Type: in.Type, Key: in.Key, OrderingKey: in.OrderingKey, Name: in.Name, Data: []byte(in.Data), Keep: in.Keep}
	for text, id := range map[string]*task.ID{in.To: &s.To, in.ID: &s.ID} {
		if text != "" {
			var err error
			if *id, err = task.ParseID(text); err != nil {
				return nil, err
			}
		}
	}
	return []byte("sent"), task.Again(time.Time{}, task.WithSignals(s))
}

func checkAsAsked(ctx context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Name     string
		Children []struct{ Type, Payload, Key string }
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	var all []task.Request
	for _, c := range in.Children {
		all = append(all, task.Request{Type: c.Type, Payload: []byte(c.Payload), Key: c.Key})
	}
	refused, err := task.CheckChildren(ctx, in.Name, all...)
	if err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for _, r := range refused {
		id := ""
		if !r.ID.IsZero() {
			id = r.ID.String()
		}
		out = append(out, map[string]any{"index": r.Index, "reason": r.Reason.String(), "message": r.Text, "id": id})
	}
	return json.Marshal(out)
}

func fan(ctx context.Context, f *steps.Flow) ([]byte, error) {
	process := func(name string) (string, error) {
		return steps.Do(ctx, f, name, func(context.Context) (string, error) { return strconv.Itoa(os.Getpid()), nil })
	}
	began, err := process("begin")
	if err != nil {
		return nil, err
	}
	var in struct {
		Type     string
		Payloads []string
	}
	if err := json.Unmarshal(f.Task.Payload, &in); err != nil {
		return nil, err
	}
	pages, err := f.RunChildren(ctx, "page", requests(in.Type, in.Payloads)...)
	if err != nil {
		return nil, err
	}
	ended, err := process("end")
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range pages.Count {
		ids = append(ids, pages.ID(int(i)).String())
	}
	return json.Marshal(map[string]any{
		"began": began, "ended": ended, "ids": ids, "count": pages.Count, "done": pages.Done, "failed": pages.Failed, "cancelled": pages.Cancelled,
	})
}
