package task_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func newFollower(after []task.ID, anyEnd bool, orderingKey string) *task.Task {
	t := &task.Task{ID: task.ID{9, 9}, Type: "t", OrderingKey: orderingKey, Children: task.ExpectingTasks(after, anyEnd)}
	r := task.Rules{QueueTimeout: time.Minute}
	r.Create(time.Unix(100, 0), t)
	return t
}

func TestANewFollowerWaitsWithoutATime(t *testing.T) {
	for _, key := range []string{"", "o"} {
		got := newFollower([]task.ID{{1}, {2}}, false, key)
		if got.State != task.Waiting || !got.NextEventAt.IsZero() || !slices.Equal(got.Awaits(), []string{task.AfterSet}) || got.ReadyAt.Equal(task.LastTime) != (key != "") {
			t.Errorf("a new follower is %+v", got)
		}
		if ids := got.Children.Set(task.AfterSet).Tasks(); !slices.Equal(ids, []task.ID{{1}, {2}}) {
			t.Errorf("it runs after %v", ids)
		}
	}
}

// Each follower ends its wait with the report that decides it, however often reports come, and in any order.
func TestRandomFollowers(t *testing.T) {
	states := []task.State{task.Done, task.Failed, task.Cancelled}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(3, seed))
		var after []task.ID
		ends := make([]task.State, 1+rng.IntN(12))
		for i := range ends {
			after = append(after, task.ID{1, byte(i)})
			if ends[i] = task.Done; rng.IntN(4) == 0 {
				ends[i] = states[rng.IntN(3)]
			}
		}
		anyEnd := rng.IntN(2) == 0
		f := newFollower(after, anyEnd, "")
		reported, want := make(map[int]bool), task.Waiting
		for range 60 {
			i := rng.IntN(len(ends))
			if len(reported) == len(ends) {
				break
			}
			isNew := !reported[i]
			reported[i] = true
			c := task.Change{Ref: task.Ref{ID: f.ID}, At: time.Unix(200, 0), Error: "why", NextEventAt: time.Unix(900, 0), Ends: &task.ChildEnds{Name: task.AfterSet, Ends: []task.ChildEnd{{Index: uint32(i), State: ends[i]}}}}
			switch {
			case want != task.Waiting:
			case !anyEnd && ends[i] != task.Done:
				want = task.Cancelled
			case len(reported) == len(ends):
				want = task.Submitted
			}
			if c.Apply(f) != isNew || f.State != want {
				t.Fatalf("seed %d: after the end of %d (%v, any %t) it is %v, want %v", seed, i, ends[i], anyEnd, f.State, want)
			}
		}
		switch f.State {
		case task.Cancelled:
			if f.LastError != "why" || !f.NextEventAt.Equal(time.Unix(900, 0)) || f.Signals != nil {
				t.Fatalf("seed %d: a cancelled follower is %+v", seed, f)
			}
		case task.Submitted:
			if f.Signals != nil || !f.ReadyAt.Equal(time.Unix(200, 0)) || !f.NextEventAt.Equal(time.Unix(260, 0)) {
				t.Fatalf("seed %d: a follower that is ready is %+v", seed, f)
			}
		}
	}
}

func TestATaskTellsItsFollowersOfItsEndAlone(t *testing.T) {
	of := &task.Task{ID: task.ID{4, 15: 77}, State: task.Processing, Version: 3, Owner: task.ID{1}, Key: "k"}
	if !(task.Change{Ref: task.Ref{ID: of.ID}, More: &task.MoreChildren{Followers: []task.ID{{5}, {6}}}}).Apply(of) || of.Version != 3 {
		t.Fatalf("it does not take followers: %+v", of)
	}
	for _, c := range []task.Change{
		{To: task.Waiting, Outcome: task.Errored},
		{To: task.Error, Outcome: task.Errored},
		{To: task.Done, Outcome: task.Completed},
		{To: task.Failed, Outcome: task.Errored},
		{To: task.Cancelled, Outcome: task.Overruled},
		{To: task.Done, Outcome: task.Completed, Remember: time.Hour},
	} {
		now := of.Clone()
		c.Ref, c.At = now.Ref(), time.Unix(300, 0)
		if !c.Apply(now) {
			t.Fatalf("%v does not apply", c.To)
		}
		rows := now.EndCarriers()
		if ends := !now.State.Live() && now.State != task.Error; len(rows) != map[bool]int{true: 2}[ends] {
			t.Errorf("with %v it tells of %d", c.To, len(rows))
		}
		for i, row := range rows {
			var end task.ReportedEnd
			if err := json.Unmarshal([]byte(row.Headers[task.EndHeader]), &end); err != nil || end != (task.ReportedEnd{To: task.ID{byte(5 + i)}, Name: task.AfterSet, Of: of.ID, State: c.To}) {
				t.Errorf("it tells %+v, %v", end, err)
			}
			if row.Shard != of.ID.Shard() || row.ID.Shard() != row.Shard || task.ShardOf(row.OrderingKey) != row.Shard || row.State != task.Submitted || row.Turn != task.Behind {
				t.Errorf("it tells by %+v", row)
			}
		}
	}
	if ended := (&task.Task{ID: task.ID{4}, State: task.Done, Version: 1}); (task.Change{Ref: task.Ref{ID: ended.ID}, More: &task.MoreChildren{Followers: []task.ID{{5}}}}).Apply(ended) {
		t.Error("one that has ended takes followers")
	}
}

func TestATaskThatIsFollowedMayBeReplaced(t *testing.T) {
	holder := &task.Task{ID: task.ID{4}, State: task.Submitted, Version: 1, Key: "k"}
	task.Change{Ref: task.Ref{ID: holder.ID}, More: &task.MoreChildren{Followers: []task.ID{{5}}}}.Apply(holder)
	rules := &task.Rules{OnConflict: task.ReplaceExisting}
	if what, _ := task.Resolve(time.Unix(1, 0), holder, &task.Task{ID: task.ID{6}, Key: "k"}, rules); what != task.Replaces {
		t.Errorf("a request of its key %v", what)
	}
	late := newFollower([]task.ID{{1}}, false, "")
	late.Key = "k"
	if what, _ := task.Resolve(time.Unix(1, 0), holder, late, rules); what != task.Exists {
		t.Errorf("a request of its key that runs after others %v", what)
	}
	if late.CanBeReplaced() {
		t.Error("a follower may be replaced")
	}
}

func TestAFollowerLeaves(t *testing.T) {
	pages := task.ChildSet{Name: "page", Added: 2}
	of := &task.Task{ID: task.ID{4}, State: task.Waiting, Version: 3, Children: &task.Children{Sets: []task.ChildSet{pages}}}
	change := func(unfollow bool, ids ...task.ID) {
		t.Helper()
		if !(task.Change{Ref: task.Ref{ID: of.ID}, More: &task.MoreChildren{Followers: ids, Unfollow: unfollow}}).Apply(of) || of.Version != 3 {
			t.Fatalf("it does not apply to %+v", of)
		}
	}
	change(true, task.ID{9})
	change(false, task.ID{5}, task.ID{6}, task.ID{7})
	change(true, task.ID{6}, task.ID{9})
	if got := of.Children.Set(task.FollowersSet); !slices.Equal(got.Tasks(), []task.ID{{5}, {7}}) || got.Added != 2 {
		t.Errorf("it is followed by %+v", got)
	}
	change(true, task.ID{7}, task.ID{5})
	if len(of.Children.Sets) != 1 || of.Children.Sets[0].Name != "page" {
		t.Errorf("it has %+v", of.Children)
	}
	of.Children = nil
	change(false, task.ID{5})
	if change(true, task.ID{5}); of.Children != nil {
		t.Errorf("it has %+v", of.Children)
	}
	of.State = task.Done
	if (task.Change{Ref: task.Ref{ID: of.ID}, More: &task.MoreChildren{Followers: []task.ID{{5}}, Unfollow: true}}).Apply(of) {
		t.Error("it applies to a task that has ended")
	}
}
