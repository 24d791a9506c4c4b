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
		Tasks: []task.Request{{ID: own, Type: "mail", Key: "k", At: time.UnixMicro(1234567).UTC(), ExpiresAt: time.UnixMicro(2234567).UTC(), Priority: &priority}},
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

func TestAWorkerAddsAndSignalsTasksOfItsTypesOnly(t *testing.T) {
	allowing := func(allowed ...string) func(types ...string) error {
		return func(types ...string) error {
			for _, typ := range types {
				if !slices.Contains(allowed, typ) {
					return errors.New("not for " + typ)
				}
			}
			return nil
		}
	}
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
