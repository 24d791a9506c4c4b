package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/mailbox"
)

// read returns the messages in a mailbox, up to the message "last".
func read(t *testing.T, box *mailbox.Box) (got []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	err := box.Receive(ctx, nil, func(message []byte) {
		if message == nil {
			got = append(got, "begin")
			return
		}
		got = append(got, string(message))
		if string(message) == "last" {
			cancel()
		}
	})
	if err != nil {
		t.Errorf("Receive returned %v", err)
	}
	return got
}

func TestAReceiverLearnsThatItLosesMessagesBecauseTooManyWait(t *testing.T) {
	var boxes mailbox.Boxes
	box := boxes.Open("topic", true)
	for n := range mailbox.Backlog + 1 {
		boxes.Deliver("topic", fmt.Append(nil, n))
	}
	boxes.Deliver("topic", []byte("last"))
	want := []string{"begin", fmt.Sprint(mailbox.Backlog - 1), fmt.Sprint(mailbox.Backlog), "last"}
	if got := read(t, box); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

func TestAMailboxBeginsWhenItsNodeIsConnected(t *testing.T) {
	var boxes mailbox.Boxes
	box := boxes.Open("topic", false)
	boxes.Begin()
	boxes.Deliver("topic", nil)
	boxes.Deliver("another", []byte("not for it"))
	boxes.Begin()
	boxes.Deliver("topic", []byte("last"))
	if got, want := read(t, box), []string{"begin", "", "begin", "last"}; !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
}

func TestAReceiverEndsWithItsNode(t *testing.T) {
	var boxes mailbox.Boxes
	closed := make(chan struct{})
	close(closed)
	err := boxes.Open("topic", false).Receive(t.Context(), closed, func([]byte) { t.Error("fn was called") })
	if !errors.Is(err, coord.ErrClosed) {
		t.Errorf("Receive returned %v, want %v", err, coord.ErrClosed)
	}
}
