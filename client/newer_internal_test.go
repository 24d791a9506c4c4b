package client

import (
	"errors"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// A node of a newer version may answer with words that this version does not know. They arrive as they are.
func TestWordsOfANewerNodeArriveAsTheyAre(t *testing.T) {
	id := task.ID{1}.String()
	got, err := decodeTask(&taskenginev1.Task{
		Id: id, State: "parked", Turn: "beside", Priority: 300, InheritedPriority: new(uint32(300)),
		History: []*taskenginev1.Attempt{{Outcome: "evicted", Node: "n2"}}, Node: "n1",
	})
	if err != nil || got.State != "parked" || got.Turn != "beside" || got.History[0].Outcome != "evicted" || got.Node != "n1" || got.History[0].Node != "n2" || got.HasEnded() ||
		got.Priority != math.MaxUint8 || *got.InheritedPriority != math.MaxUint8 {
		t.Errorf("the task is %+v, %v", got, err)
	}
	var d decoder
	if r := d.reason(&taskenginev1.Reason{Code: "eclipse", HeadState: "parked"}); r.Code != "eclipse" || r.HeadState != "parked" {
		t.Errorf("the reason is %+v", r)
	}
	if r, err := receiptOf(&taskenginev1.Receipt{Id: id, Outcome: "merged"}); err != nil || r.Outcome != "merged" {
		t.Errorf("the receipt is %+v, %v", r, err)
	}
	if l := limitOf(&taskenginev1.Limit{Scope: "planet"}); l.Scope != "planet" {
		t.Errorf("the limit is %+v", l)
	}
	words := &taskenginev1.ScheduleDefinition{Gap: "a", Repeat: "b", Overlap: "c", CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "d"}}
	if d := definitionOf(words); d.Gap != "a" || d.Repeat != "b" || d.Overlap != "c" || d.CatchUp.Policy != "d" {
		t.Errorf("the definition is %+v", d)
	}
}

// An answer with an id that is none is an error. A number or a time beyond its range stays out of range. Nothing panics.
func TestAnAnswerThatMakesNoSenseIsAnError(t *testing.T) {
	id := task.ID{1}.String()
	for name, err := range map[string]error{
		"no id of a task":    second(decodeTask(&taskenginev1.Task{Id: "17"})),
		"no id of a receipt": second(receiptOf(&taskenginev1.Receipt{Id: "17"})),
		"no id of a fire": second(decodeSchedule(&taskenginev1.Schedule{
			TaskId: id, Running: []*taskenginev1.ScheduleFire{{TaskId: id}, {TaskId: "17"}},
		})),
	} {
		if !errors.Is(err, task.ErrBadID) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := receiptOf(&taskenginev1.Receipt{Outcome: "created"}); err == nil {
		t.Error("a receipt may have no id")
	}
	if got, err := decodeTask(&taskenginev1.Task{
		Id: id, CreatedAt: &timestamppb.Timestamp{Seconds: math.MaxInt64, Nanos: -1}, History: []*taskenginev1.Attempt{nil}, Progress: &taskenginev1.Progress{},
	}); err != nil || got.CreatedAt.IsZero() {
		t.Errorf("the task is %+v, %v", got, err)
	}
	if r := rateOf(&taskenginev1.Rate{Per: &durationpb.Duration{Seconds: math.MaxInt64}}); r.Per != math.MaxInt64*time.Nanosecond {
		t.Errorf("the rate is per %v", r.Per)
	}
	if got, err := decodeTask(nil); err != nil || !got.ID.IsZero() {
		t.Errorf("no task is %+v, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }
