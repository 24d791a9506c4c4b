package client_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/task"
)

func TestATaskIsSubmittedToRunAfterOthers(t *testing.T) {
	c, _ := newClient(t)
	first, err := c.Submit(t.Context(), "unknown", nil)
	if err != nil {
		t.Fatal(err)
	}
	late, err := c.Submit(t.Context(), "unknown", nil, client.After(first.ID))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), late.ID)
	if want := (&client.AfterTasks{Tasks: []task.ID{first.ID}}); err != nil || got.State != client.StateWaiting || !reflect.DeepEqual(got.After, want) {
		t.Errorf("it is %v, after %+v, %v", got.State, got.After, err)
	}
	if before, err := c.Get(t.Context(), first.ID); err != nil || !reflect.DeepEqual(before.Followers, []task.ID{late.ID}) || before.Children != nil {
		t.Errorf("the first is followed by %v and has %v, %v", before.Followers, before.Children, err)
	}
	if why, err := c.Why(t.Context(), late.ID); err != nil || len(why) == 0 || why[0].Code != client.ReasonAfter || !reflect.DeepEqual(why[0].Holders, []task.ID{first.ID}) {
		t.Errorf("why: %+v, %v", why, err)
	}
	if other, err := c.Submit(t.Context(), "unknown", nil, client.AfterAny(first.ID)); err != nil {
		t.Error(err)
	} else if got, err := c.Get(t.Context(), other.ID); err != nil || !got.After.Any {
		t.Errorf("it is after %+v, %v", got.After, err)
	}
	if _, err := c.Cancel(t.Context(), first.ID, "no"); err != nil {
		t.Error(err)
	}
	if _, err := c.Submit(t.Context(), "unknown", nil, client.After(task.ID{1, 6: 0x70})); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("after one that is not there: %v", err)
	}
}
