package calls

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var to, own = task.ID{1, 15: 2}, task.ID{3, 15: 4}

// finish returns an answer with children of two names, tasks and signals.
func finish() *wire.Finish {
	return &wire.Finish{
		Outcome: &wire.Finish_Result{Result: []byte("so far")},
		Children: []*wire.Child{
			{Set: "page", Type: "render", Payload: []byte("1"), OrderingKey: "o", Headers: map[string]string{"a": "b"}},
			{Type: "mail", TaskId: own[:], Key: "k", RunAt: 1234567, ExpiresAt: 2234567, Priority: proto.Uint32(0)},
			{Set: "proof", Type: "read"},
			{Set: "page", Type: "render", Payload: []byte("2"), OrderingKey: "o"},
			{Type: "mail", After: [][]byte{to[:], {7}, own[:]}, AfterAny: true},
		},
		Signals: []*wire.Signal{
			{TaskId: to[:], Type: "order", Id: own[:], Name: "paid", Data: []byte{0xff}, Keep: true},
			{Type: "invoice", Key: "k", OrderingKey: "o", Name: "seen"},
		},
	}
}

func TestTasksChildrenAndSignalsOfAnAnswerAreThoseOfAHandler(t *testing.T) {
	priority := task.HighestPriority
	want := &task.Rerun{
		Tasks: []task.Request{
			{ID: own, Type: "mail", Key: "k", At: time.UnixMicro(1234567).UTC(), ExpiresAt: time.UnixMicro(2234567).UTC(), Priority: &priority},
			{Type: "mail", After: []task.ID{to, {}, own}, AfterAny: true},
		},
		Children: []task.ChildRequests{
			{Name: "page", Requests: []task.Request{
				{Type: "render", Payload: []byte("1"), OrderingKey: "o", Headers: map[string]string{"a": "b"}}, {Type: "render", Payload: []byte("2"), OrderingKey: "o"},
			}},
			{Name: "proof", Requests: []task.Request{{Type: "read"}}},
		},
		Signals: []task.SignalRequest{
			{To: to, Type: "order", ID: own, Name: "paid", Data: []byte{0xff}, Keep: true}, {Type: "invoice", Key: "k", OrderingKey: "o", Name: "seen"},
		},
	}
	waits := []task.ChildrenWait{{Name: "page"}, {Name: "proof", Count: 1, OrFailed: true}}
	again := &wire.Finish_Again{Again: &wire.Again{Result: []byte("so far"), Wait: &wire.Wait{Names: []string{"void"}, Children: []*wire.ChildrenWait{
		{Name: "page"}, {Name: "proof", Count: 1, OrFailed: true},
	}}}}
	for _, waiting := range []bool{false, true} {
		f := finish()
		if waiting {
			f.Outcome = again
		}
		a := AnswerOf(f)
		v := task.VerdictOf(a.Result, a.Err)
		if v.Outcome != task.Completed || string(v.Result) != "so far" || v.RunsAgain() != waiting || !reflect.DeepEqual(v.Rerun, want) {
			t.Errorf("the verdict is %+v with %+v, want %+v", v, v.Rerun, want)
		}
		if waiting && (!slices.Equal(v.Children, waits) || !slices.Equal(v.Await, []string{task.AwaitsChildren, "void"}) || !v.Again.IsZero()) {
			t.Errorf("it waits for %+v until %v", v.Children, v.Again)
		}
	}
}

// allowing returns what a worker may add that has a token for these types.
func allowing(allowed ...string) func(types ...string) error {
	return func(types ...string) error {
		for _, typ := range types {
			if !slices.Contains(allowed, typ) {
				return errors.New("not for " + typ)
			}
		}
		return nil
	}
}

func TestTasksThatAWorkerAddsRunAfterTasksOfItsTypesOnly(t *testing.T) {
	late := &wire.Child{Type: "mail", After: [][]byte{to[:]}}
	requestsOf := func(rights Rights) []task.Request {
		a := rights.AnswerOf(&wire.Finish{Outcome: &wire.Finish_Result{}, Children: []*wire.Child{late, {Type: "mail"}}})
		asked := new(asked)
		Check(asked, &wire.Check{Children: []*wire.Child{late}}, &rights)
		return append(task.VerdictOf(a.Result, a.Err).Rerun.Tasks, asked.about...)
	}
	for i, r := range requestsOf(Rights{Adds: allowing("mail", "read")}) {
		if r.After == nil {
			if r.MayFollow != nil {
				t.Errorf("request %d runs after no task, and has a rule for such tasks", i)
			}
			continue
		}
		for typ, want := range map[string]bool{"mail": true, "read": true, "pay": false, "": false, "taskengine.workflow": false} {
			if got := r.MayFollow(typ); got != want {
				t.Errorf("request %d may run after a task of type %q: %t, want %t", i, typ, got, want)
			}
		}
	}
	for name, all := range map[string]Rights{"a program of the node": {}, "a token for all types": {Adds: func(...string) error { return nil }}} {
		for _, r := range requestsOf(all) {
			if r.MayFollow != nil {
				t.Errorf("%s: there is a rule for the tasks before it", name)
			}
		}
	}
}

// asked is a host that remembers the requests of a check.
type asked struct {
	checker
	about []task.Request
}

func (a *asked) Check(_ string, requests []task.Request) ([]task.Refusal, error) {
	a.about = requests
	return nil, nil
}

func TestAWorkerAddsAndSignalsTasksOfItsTypesOnly(t *testing.T) {
	untyped := &wire.Finish{Outcome: &wire.Finish_Result{}, Signals: []*wire.Signal{{TaskId: to[:], Name: "paid"}}}
	for name, c := range map[string]struct {
		finish    *wire.Finish
		forbidden func(types ...string) error
		class     string
	}{
		"all":                        {finish(), nil, ""},
		"each":                       {finish(), allowing("render", "mail", "read", "order", "invoice"), ""},
		"no child":                   {finish(), allowing("render", "mail", "order", "invoice"), "forbidden"},
		"no task":                    {finish(), allowing("render", "read", "order", "invoice"), "forbidden"},
		"no signal to an id":         {finish(), allowing("render", "mail", "read", "invoice"), "forbidden"},
		"no signal to a key":         {finish(), allowing("render", "mail", "read", "order"), "forbidden"},
		"an id without a type":       {untyped, allowing("order"), "forbidden"},
		"an id without a type, all":  {untyped, allowing("order", ""), ""},
		"an id without a type, none": {untyped, nil, ""},
		"nothing":                    {&wire.Finish{Outcome: &wire.Finish_Result{}}, allowing(), ""},
	} {
		rights := Rights{Adds: c.forbidden}
		a := rights.AnswerOf(c.finish)
		v := task.VerdictOf(a.Result, a.Err)
		if v.Class != c.class || v.GiveUp != (c.class != "") || (v.Outcome == task.Completed) != (c.class == "") {
			t.Errorf("%s: the verdict is %+v", name, v)
		}
		if name == "an id without a type" && !errors.Is(a.Err, errUntyped) {
			t.Errorf("%s: the error is %v", name, a.Err)
		}
	}
}
