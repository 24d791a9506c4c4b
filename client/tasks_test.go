package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/task"
)

func TestATaskIsFoundByItsKey(t *testing.T) {
	c, _ := newClient(t)
	ids := make(map[string]task.ID)
	for _, orderingKey := range []string{"", "room"} {
		r, err := c.Submit(t.Context(), "idle", orderingKey, client.Key("k"), client.OrderingKey(orderingKey))
		if err != nil {
			t.Fatal(err)
		}
		ids[orderingKey] = r.ID
	}
	for orderingKey, id := range ids {
		if got, err := c.Find(t.Context(), "idle", "k", client.OrderingKey(orderingKey)); err != nil || got.ID != id {
			t.Errorf("with the ordering key %q it is %v, %v, want %s", orderingKey, got, err, id)
		}
	}
	if _, err := c.Find(t.Context(), "idle", "none"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Find(t.Context(), "idle", ""); !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
}

func TestTasksAreManaged(t *testing.T) {
	c, _ := newClient(t)
	receipt, err := c.Submit(t.Context(), "idle", nil, client.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if why, err := c.Why(t.Context(), receipt.ID); err != nil || len(why) == 0 || why[0].Code != "scheduled" {
		t.Errorf("why is %v, %v", why, err)
	}
	at := time.Now().Add(2 * time.Hour).Truncate(time.Second)
	if got, err := c.Reschedule(t.Context(), receipt.ID, at); err != nil || !got.NextEventAt.Equal(at) || got.State != client.StateWaiting {
		t.Errorf("rescheduled, it is %+v, %v", got, err)
	}
	if _, err := c.Cancel(t.Context(), receipt.ID, "no use"); err != nil {
		t.Error(err)
	}
	ended, err := c.Wait(t.Context(), receipt.ID)
	if err != nil || ended.State != "cancelled" || ended.Error != "no use" || !ended.ReadyAt.Equal(at) {
		t.Errorf("the task is %v, %v", ended, err)
	}
	if got, err := c.Resume(t.Context(), receipt.ID); err != nil || got.HasEnded() {
		t.Errorf("resumed, it is %+v, %v", got, err)
	}
	if got, err := c.Fail(t.Context(), receipt.ID, "given up"); err != nil || got.State != client.StateFailed || got.Error != "given up" {
		t.Errorf("failed, it is %+v, %v", got, err)
	}
	for range 250 {
		if _, err := c.Submit(t.Context(), "other", nil); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for one, err := range c.Tasks(t.Context(), client.TaskFilter{Where: "type=oth* since=1h"}) {
		if err != nil || one.Type != "other" {
			t.Fatal(one, err)
		}
		count++
	}
	if count != 250 {
		t.Errorf("the list by a filter has %d tasks", count)
	}
	count = 0
	for one, err := range c.Tasks(t.Context(), client.TaskFilter{Types: []string{"other"}}) {
		if err != nil || one.Type != "other" {
			t.Fatal(one, err)
		}
		count++
	}
	if count != 250 {
		t.Errorf("the list has %d tasks", count)
	}
}

func TestTasksAreCountedAndListedByTheirKey(t *testing.T) {
	c, _ := newClient(t)
	r, err := c.Submit(t.Context(), "idle", 1, client.Key("k"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), "idle", 2); err != nil {
		t.Fatal(err)
	}
	counts, err := c.Count(t.Context(), client.TaskFilter{Types: []string{"idle"}})
	if want := (client.StateCount{State: client.StateSubmitted, Type: "idle", Count: 2}); err != nil || len(counts) != 1 || counts[0] != want {
		t.Errorf("the counts are %v, %v", counts, err)
	}
	if counts, err := c.Count(t.Context(), client.TaskFilter{States: []client.State{client.StateDone}}); err != nil || len(counts) != 0 {
		t.Errorf("the counts of done tasks: %v, %v", counts, err)
	}
	if counts, err := c.Count(t.Context(), client.TaskFilter{Where: "key=none"}); err != nil || len(counts) != 0 {
		t.Errorf("counted by a filter: %v, %v", counts, err)
	}
	if _, err := c.Count(t.Context(), client.TaskFilter{Key: "k"}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("counted by key: %v", err)
	}
	n := 0
	for one, err := range c.Tasks(t.Context(), client.TaskFilter{Key: "k"}) {
		if n++; err != nil || one.ID != r.ID {
			t.Errorf("listed: %v, %v", one, err)
		}
	}
	if n != 1 {
		t.Errorf("%d tasks have the key", n)
	}
}

func TestATaskIsChangedAtAVersionOnly(t *testing.T) {
	c, _ := newClient(t)
	r, err := c.Submit(t.Context(), "idle", 1)
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.Get(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	other := client.AtVersion(one.Version + 1)
	for name, err := range map[string]error{
		"cancel":     second(c.Cancel(t.Context(), r.ID, "", other)),
		"fail":       second(c.Fail(t.Context(), r.ID, "", other)),
		"resume":     second(c.Resume(t.Context(), r.ID, other)),
		"reschedule": second(c.Reschedule(t.Context(), r.ID, time.Now(), other)),
	} {
		if !errors.Is(err, client.ErrConflict) {
			t.Errorf("%s at another version: %v", name, err)
		}
	}
	if same, err := c.Get(t.Context(), r.ID); err != nil || same.Version != one.Version {
		t.Errorf("it is %v, %v", same, err)
	}
	if got, err := c.Cancel(t.Context(), r.ID, "", client.AtVersion(one.Version)); err != nil || got.Version != one.Version+1 {
		t.Errorf("cancelled, it is %v, %v", got, err)
	}
}

func TestTheKindsOfErrorsAreRead(t *testing.T) {
	c, _ := newClient(t)
	var newest task.ID
	for range 3 {
		r, err := c.Submit(t.Context(), "fail", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		newest = r.ID
	}
	all, err := c.ErrorKinds(t.Context(), client.ErrorFilter{Types: []string{"fail"}, Where: "since=1h", Limit: 7})
	if err != nil || !all.Complete || all.Tasks != 3 || all.Others != 0 || len(all.Kinds) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if k := all.Kinds[0]; k.Tasks != 3 || k.Sample != newest || k.Error != "unexpected EOF" || k.First.IsZero() || k.Last.Before(k.First) || k.Types[0] != "fail" {
		t.Errorf("the kind is %+v", k)
	}
	count := 0
	for _, err := range c.Tasks(t.Context(), client.TaskFilter{Where: "error.kind=" + all.Kinds[0].Kind}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 3 {
		t.Errorf("%d tasks have the kind", count)
	}
	if _, err := c.ErrorKinds(t.Context(), client.ErrorFilter{Where: "error.knd=1"}); !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
	if none, err := c.ErrorKinds(t.Context(), client.ErrorFilter{Types: []string{"idle"}}); err != nil || len(none.Kinds) != 0 || none.Tasks != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}
