package handler

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var withAll = []string{"rerun", "wait", "children", "family", "signals", "after"}

func TestTasksChildrenAndSignalsGoWithTheEndOfAnAttempt(t *testing.T) {
	at, priority := time.UnixMicro(1234567), task.HighestPriority
	options := []task.AgainOption{
		task.WithSignals(
			task.SignalRequest{To: task.ID{1, 15: 2}, Type: "order", ID: task.ID{3}, Name: "paid", Data: []byte("\xff"), Keep: true},
			task.SignalRequest{Type: "order", Key: "k", OrderingKey: "o", Name: "seen"}),
		task.WithChildren("page", task.Request{Type: "render", Payload: []byte("1"), OrderingKey: "o", Headers: map[string]string{"a": "b"}}),
		task.WithTasks(task.Request{ID: task.ID{4}, Type: "mail", Key: "k", At: at, ExpiresAt: at.Add(time.Second), Priority: &priority}),
		task.WithChildren("proof", task.Request{Type: "read"}, task.Request{Type: "read"}),
		task.WithTasks(task.Request{Type: "late", After: []task.ID{{5}, {6}}, AfterAny: true}),
	}
	first, second := task.ID{5}, task.ID{6}
	id, to, own := task.ID{4}, task.ID{1, 15: 2}, task.ID{3}
	want := &wire.Finish{
		RunId: 1,
		Children: []*wire.Child{
			{TaskId: id[:], Type: "mail", Key: "k", RunAt: 1234567, ExpiresAt: 2234567, Priority: proto.Uint32(0)},
			{Type: "late", After: [][]byte{first[:], second[:]}, AfterAny: true},
			{Set: "page", Type: "render", Payload: []byte("1"), OrderingKey: "o", Headers: map[string]string{"a": "b"}},
			{Set: "proof", Type: "read"},
			{Set: "proof", Type: "read"},
		},
		Signals: []*wire.Signal{
			{TaskId: to[:], Type: "order", Id: own[:], Name: "paid", Data: []byte("\xff"), Keep: true},
			{Type: "order", Key: "k", OrderingKey: "o", Name: "seen"},
		},
	}
	for name, c := range map[string]struct {
		err  error
		want *wire.Finish
	}{
		"done": {task.Again(time.Time{}, options...), &wire.Finish{Outcome: &wire.Finish_Result{Result: []byte("so far")}}},
		"again": {
			task.Again(at, append(options, task.WithCheckpoint([]byte("c")))...),
			&wire.Finish{Outcome: &wire.Finish_Again{Again: &wire.Again{At: 1234567, Result: []byte("so far"), Checkpoint: []byte("c")}}},
		},
		"waits for a signal": {
			task.WaitFor([]string{"paid"}, time.Time{}, options...),
			&wire.Finish{Outcome: &wire.Finish_Again{Again: &wire.Again{Result: []byte("so far"), Wait: &wire.Wait{Names: []string{"paid"}}}}},
		},
		"waits for children": {
			task.WaitForChildren([]task.ChildrenWait{{Name: "page"}, {Name: "proof", Count: 1, OrFailed: true}}, at, options...),
			&wire.Finish{Outcome: &wire.Finish_Again{Again: &wire.Again{At: 1234567, Result: []byte("so far"), Wait: &wire.Wait{Children: []*wire.ChildrenWait{
				{Name: "page"}, {Name: "proof", Count: 1, OrFailed: true},
			}}}}},
		},
		"waits for either": {
			task.WaitForEither([]string{"paid"}, []task.ChildrenWait{{Name: "page"}}, time.Time{}, options...),
			&wire.Finish{Outcome: &wire.Finish_Again{Again: &wire.Again{Result: []byte("so far"), Wait: &wire.Wait{
				Names: []string{"paid"}, Children: []*wire.ChildrenWait{{Name: "page"}},
			}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.RunId, c.want.Children, c.want.Signals = want.RunId, want.Children, want.Signals
			if f := answerTo(t, []byte("so far"), c.err, withAll...); !proto.Equal(f, c.want) {
				t.Errorf("the answer is {%.900v}, want {%.900v}", f, c.want)
			}
		})
	}
}

func TestTasksAndSignalsThatCannotBeSentFailTheTaskForGood(t *testing.T) {
	with := func(options ...task.AgainOption) error { return task.Again(time.Time{}, options...) }
	large := make([]byte, 1000)
	for name, c := range map[string]struct {
		err      error
		features []string
		class    string
	}{
		"a name of children":   {with(task.WithChildren("\xff", task.Request{Type: "mail"})), withAll, ""},
		"no name of children":  {with(task.WithChildren("", task.Request{Type: "mail"})), withAll, ""},
		"a type":               {with(task.WithTasks(task.Request{Type: "\xff"})), withAll, ""},
		"a header":             {with(task.WithTasks(task.Request{Type: "mail", Headers: map[string]string{"a": "\xff"}})), withAll, ""},
		"a signal":             {with(task.WithSignals(task.SignalRequest{To: task.ID{1}, Name: "\xff"})), withAll, ""},
		"a wait for children":  {task.WaitForChildren([]task.ChildrenWait{{Name: "\xff"}}, time.Time{}), withAll, ""},
		"a large child":        {with(task.WithChildren("a", task.Request{Type: "mail", Payload: large})), withAll, "result_too_large"},
		"a large signal":       {with(task.WithSignals(task.SignalRequest{To: task.ID{1}, Name: "paid", Data: large})), withAll, "result_too_large"},
		"a task with children": {with(task.WithTasks(task.Request{Type: "mail", Children: new(task.NewChildren)})), withAll, "unsupported"},
		"a host without tasks": {
			with(task.WithTasks(task.Request{Type: "mail"})), []string{"rerun", "wait", "family", "signals"}, "unsupported",
		},
		"a host without tasks after others": {
			with(task.WithTasks(task.Request{Type: "mail"}, task.Request{Type: "mail", After: []task.ID{{1}}})), withAll[:5], "unsupported",
		},
		"a host without sets of children": {
			with(task.WithChildren("a", task.Request{Type: "mail"})), []string{"rerun", "wait", "children", "signals"}, "unsupported",
		},
		"a host without waits for children": {
			task.WaitForChildren([]task.ChildrenWait{{Name: "a"}}, time.Time{}), []string{"rerun", "wait", "children", "signals"}, "unsupported",
		},
		"a host without signals": {
			with(task.WithSignals(task.SignalRequest{To: task.ID{1}, Name: "paid"})), []string{"rerun", "wait", "children", "family"}, "unsupported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := answerTo(t, nil, c.err, c.features...)
			if e := f.GetError(); !e.GetPermanent() || e.GetClass() != c.class || len(f.GetChildren())+len(f.GetSignals()) > 0 {
				t.Errorf("the answer is {%.300v}, want a permanent error of class %q", f, c.class)
			}
		})
	}
}

func TestAHandlerLearnsOfTheChildrenAndTheParentOfItsTask(t *testing.T) {
	parent := task.ID{7, 15: 1}
	r := newRun(&wire.Run{
		Children: []*wire.ChildSet{
			{Name: "page", Added: 9, Done: 1, Failed: 2, Cancelled: 3, Ended: []byte{1, 1}},
			{Name: "bound", Added: 2, Shards: []byte{3, 4}},
		},
		Parent: &wire.Parent{TaskId: parent[:], Name: "order", Index: 300},
	}, nil, &session{})
	want := &task.Children{Sets: []task.ChildSet{
		{Name: "page", Added: 9, Done: 1, Failed: 2, Cancelled: 3, Reported: []byte{1, 1}},
		{Name: "bound", Added: 2, Shards: []byte{3, 4}},
	}}
	if !reflect.DeepEqual(r.task.Children, want) || !reflect.DeepEqual(r.task.Parent, &task.Parent{ID: parent, Name: "order", Index: 300}) {
		t.Errorf("the children are %+v, the parent is %+v", r.task.Children, r.task.Parent)
	}
	if r = newRun(&wire.Run{}, nil, &session{}); r.task.Children != nil || r.task.Parent != nil {
		t.Errorf("a task without has the children %+v and the parent %+v", r.task.Children, r.task.Parent)
	}
}
